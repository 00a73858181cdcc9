"""Who may call: open on loopback to programs, tokens with roles everywhere else."""

from __future__ import annotations

import pytest

from homing.app import Homing
from homing.domain.errors import SettingsError
from homing.settings import Settings
from homing.settings.tree import ServerSettings
from homing.web.application import application
from tests.unit.web.conftest import Api


async def test_web_pages_of_others_cannot_use_the_open_api(api: Api) -> None:
    """Open means open to this machine's programs, not to pages in its browser."""
    foreign = await api.client.get("/api/v1/stats", headers={"Origin": "https://evil.example"})
    assert foreign.status_code == 403
    rebound = await api.client.get("/api/v1/stats", headers={"Host": "evil.example"})
    assert rebound.status_code == 403


async def test_a_bind_to_the_world_without_tokens_is_refused() -> None:
    settings = Settings(store="memory:", server=ServerSettings(host="0.0.0.0"))
    app = application(Homing("memory:", provider="stub:", worker=False), settings)
    with pytest.raises(SettingsError, match=r"server\.host"):
        async with app.router.lifespan_context(app):
            pass


class TestWithTokens:
    @pytest.fixture
    def settings(self) -> Settings:
        return Settings(store="memory:", server=ServerSettings(host="127.0.0.2"))

    @pytest.fixture(autouse=True)
    def closed(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """As on an address of the world, which no test may listen on."""
        monkeypatch.setattr("homing.web.application.is_loopback", lambda host: False)
        monkeypatch.setattr("homing.web.auth.is_loopback", lambda host: True)

    async def test_without_a_token_nothing_is_told(self, api: Api) -> None:
        for path in ("/", "/api/v1/stats", "/api/v1/deliveries", "/api/v1/events"):
            answer = await api.client.get(path)
            assert answer.status_code == 401
            assert answer.headers["www-authenticate"] == "Bearer"
        wrong = await api.client.get("/api/v1/stats", headers={"Authorization": "Bearer hmg_x"})
        assert wrong.status_code == 401

    @pytest.mark.parametrize(
        ("role", "reads", "sends", "operates"),
        [
            ("viewer", 200, 403, 403),
            ("sender", 403, 202, 403),
            ("operator", 200, 403, 404),
            ("admin", 200, 202, 404),
        ],
    )
    async def test_each_role_may_do_its_part(
        self, api: Api, role: str, reads: int, sends: int, operates: int
    ) -> None:
        token = await api.homing.tokens.make("t", role)
        api.client.headers["Authorization"] = f"Bearer {token}"
        assert (await api.client.get("/api/v1/stats")).status_code == reads
        assert (await api.post("k")).status_code == sends
        verb = {"actor": "a", "reason": "r"}
        acted = await api.client.post("/api/v1/deliveries/none/replay", json=verb)
        assert acted.status_code == operates

    async def test_a_revoked_token_is_worth_nothing(self, api: Api) -> None:
        token = await api.homing.tokens.make("t", "viewer")
        await api.homing.tokens.revoke("t")
        answer = await api.client.get("/api/v1/stats", headers={"Authorization": f"Bearer {token}"})
        assert answer.status_code == 401

    async def test_the_store_keeps_no_token(self, api: Api) -> None:
        token = await api.homing.tokens.make("t", "viewer")
        facts = await api.homing.store.facts("token")
        assert token not in str(facts)
