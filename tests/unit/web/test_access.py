"""Who may call: programs of this machine while there is no token, else holders of a token."""

from __future__ import annotations

import asyncio
import re

import pytest

from homing.domain.errors import SettingsError, StoreLocked
from homing.domain.loopback import is_loopback
from homing.engine.access.tokens import Tokens
from homing.plugins.value import Web
from homing.runtime.app import Homing
from homing.settings import Settings
from homing.settings.tree import ServerSettings
from homing.web.access.auth import MAX_TRUSTED, AccessCheck
from homing.web.application import application
from homing.web.http.calls import Call
from tests.unit.web.conftest import CLOSED, OPEN, TOKENS, Api, running

STATS = "/api/v1/stats"


class TestOpen:
    """Open means open to this machine's programs, not to pages in its browser, nor beyond it."""

    @pytest.mark.parametrize(
        "host", ["127.0.0.1:8025", "localhost", "LOCALHOST:1", "[::1]:8025", "127.8.9.1"]
    )
    async def test_programs_of_this_machine_may_call(self, api: Api, host: str) -> None:
        assert (await api.client.get(STATS, headers={"Host": host})).status_code == 200

    @pytest.mark.parametrize(
        "host",
        [
            "evil.example",
            "127.0.0.1.evil.example",
            "localhost.evil.example:8025",
            "127.0.0.1:8025@evil.example",
            "127.0.0.1, evil.example",
            "[::1].evil.example",
            "192.0.2.1",
            "0.0.0.0",
            "2130706433",
            "",
            "[",
        ],
    )
    async def test_a_name_that_points_here_is_refused(self, api: Api, host: str) -> None:
        """DNS rebinding: the browser believes that it talks to the attacker's own site."""
        answer = await api.client.get(STATS, headers={"Host": host})
        assert (answer.status_code, answer.json()["field"]) == (403, "Host")

    @pytest.mark.parametrize(
        "origin",
        ["https://evil.example", "null", "http://127.0.0.1:9999", "https://127.0.0.1:8025", ""],
    )
    async def test_pages_of_others_are_refused(self, api: Api, origin: str) -> None:
        answer = await api.client.get(STATS, headers={"Origin": origin})
        assert (answer.status_code, answer.json()["field"]) == (403, "Origin")

    async def test_our_own_page_may_call(self, api: Api) -> None:
        own = await api.client.get(STATS, headers={"Origin": "http://127.0.0.1:8025"})
        assert own.status_code == 200

    @pytest.mark.parametrize(
        "name", ["X-Forwarded-For", "X-Forwarded-Proto", "Forwarded", "X-Real-IP", "Via"]
    )
    async def test_nobody_is_served_through_a_proxy(self, api: Api, name: str) -> None:
        """A proxy on this machine makes the world look like loopback."""
        answer = await api.client.get(STATS, headers={name: "203.0.113.9"})
        assert (answer.status_code, answer.json()["field"]) == (403, name.lower())

    async def test_health_is_told_to_anybody(self, api: Api) -> None:
        answer = await api.client.get("/healthz", headers={"Host": "probe.example"})
        assert answer.status_code == 200


async def test_a_bind_to_the_world_without_tokens_is_refused() -> None:
    app = application(Homing("memory:", provider="stub:", worker=False), CLOSED)
    with pytest.raises(SettingsError, match=r"server\.host"):
        async with app.router.lifespan_context(app):
            pass


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "example.org", "", "127.0.0.1.x"])
def test_what_is_not_loopback_is_known(host: str) -> None:
    assert not is_loopback(host)


class TestWithTokens:
    async def test_without_a_token_nothing_is_told(self, closed: Api) -> None:
        for path in ("/", STATS, "/api/v1/deliveries", "/api/v1/events", "/metrics"):
            answer = await closed.client.get(path)
            assert answer.status_code == 401
            assert answer.headers["www-authenticate"] == "Bearer"

    @pytest.mark.parametrize(
        "header",
        [
            "Bearer hmg_x",
            "Bearer",
            "Bearer ",
            "Basic aG1nXzpx",
            "hmg_" + "0" * 48,
            "Bearer " + "x" * 5000,
            "Bearer hmg_ä",
        ],
    )
    async def test_what_is_no_token_opens_nothing(self, closed: Api, header: str) -> None:
        answer = await closed.client.get(STATS, headers={b"Authorization": header.encode()})
        assert answer.status_code == 401
        assert header.rsplit(maxsplit=1)[-1] not in answer.text or header == "Bearer"

    async def test_two_tokens_at_once_are_refused(self, closed: Api) -> None:
        header = ("Authorization", f"Bearer {closed.tokens['admin']}")
        answer = await closed.client.get(STATS, headers=[header, header])
        assert (answer.status_code, answer.json()["field"]) == (400, "authorization")

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
        self, closed: Api, role: str, reads: int, sends: int, operates: int
    ) -> None:
        closed.client.headers["Authorization"] = f"bearer {closed.tokens[role]}"
        assert (await closed.client.get(STATS)).status_code == reads
        assert (await closed.post("k")).status_code == sends
        verb = {"actor": "a", "reason": "r"}
        acted = await closed.client.post("/api/v1/deliveries/none/replay", json=verb)
        assert acted.status_code == operates

    async def test_a_revoked_token_is_worth_nothing(self, closed: Api) -> None:
        header = {"Authorization": f"Bearer {closed.tokens['viewer']}"}
        await closed.homing.tokens.revoke("the viewer")
        assert (await closed.client.get(STATS, headers=header)).status_code == 401

    async def test_the_store_keeps_no_token(self, closed: Api) -> None:
        facts = str(await closed.homing.store.facts("token"))
        assert not any(token in facts for token in closed.tokens.values())

    async def test_an_audit_names_the_token_beside_the_person(self, closed: Api) -> None:
        """Anybody can write any name; the token is what was proved."""
        closed.client.headers["Authorization"] = f"Bearer {closed.tokens['admin']}"
        delivery_id = await closed.dead()
        verb = {"actor": "ann", "reason": "gone"}
        await closed.client.post(f"/api/v1/deliveries/{delivery_id}/dismiss", json=verb)
        audit = (await closed.client.get(f"/api/v1/deliveries/{delivery_id}/audit")).json()
        assert [entry["actor"] for entry in audit["items"]] == ["ann (token the admin)"]


class TestTokensOnLoopback:
    """Loopback is open while there is no token, unless `server.auth` says otherwise."""

    async def test_the_first_token_closes_it(self) -> None:
        homing = Homing("memory:", provider="stub:", worker=False)
        token = await homing.tokens.make("ann", "viewer")
        async with running(OPEN, homing) as api:
            assert (await api.client.get(STATS)).status_code == 401
            header = {"Authorization": f"Bearer {token}"}
            assert (await api.client.get(STATS, headers=header)).status_code == 200

    async def test_a_running_service_sees_it_soon_and_stays_closed(self, api: Api) -> None:
        """The revoked token may be a stolen one: its end must not open the API to everyone."""
        now_s = 100.0
        access_check = AccessCheck(api.homing, OPEN.server, steady_s=lambda: now_s)
        assert await access_check.is_open()
        await api.homing.tokens.make("ann", "viewer")
        assert await access_check.is_open()  # not every call asks the store
        now_s += 2.1
        assert not await access_check.is_open()
        await api.homing.tokens.revoke("ann")
        now_s += 2.1
        assert not await access_check.is_open()

    async def test_a_store_that_is_locked_at_the_first_look_opens_nothing(
        self, api: Api, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Whether there is a token is not known. Once it was looked, what was found holds."""
        now_s, locked = 100.0, True
        found = Tokens.any

        async def look(self: Tokens) -> bool:
            if locked:
                raise StoreLocked("locked")
            return await found(self)

        monkeypatch.setattr(Tokens, "any", look)
        access_check = AccessCheck(api.homing, OPEN.server, steady_s=lambda: now_s)
        for _ in range(2):
            with pytest.raises(StoreLocked):
                await access_check.is_open()
        locked = False
        assert await access_check.is_open()
        locked, now_s = True, now_s + 2.1
        assert await access_check.is_open()
        locked = False
        await api.homing.tokens.make("ann", "viewer")
        assert not await access_check.is_open()

    async def test_no_call_is_served_before_the_first_look_has_ended(
        self, api: Api, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        found = Tokens.any

        async def look(self: Tokens) -> bool:
            await asyncio.sleep(0)
            return await found(self)

        monkeypatch.setattr(Tokens, "any", look)
        await api.homing.tokens.make("ann", "viewer")
        access_check = AccessCheck(api.homing, OPEN.server, steady_s=lambda: 100.0)
        assert await asyncio.gather(*(access_check.is_open() for _ in range(3))) == [False] * 3

    async def test_with_auth_token_no_call_is_served_without_one(self) -> None:
        async with running(TOKENS) as api:
            assert (await api.client.get(STATS)).status_code == 401
            assert (await api.client.get("/healthz")).status_code == 200
            api.client.headers["Authorization"] = f"Bearer {api.tokens['viewer']}"
            assert (await api.client.get(STATS)).status_code == 200

    async def test_with_auth_token_callers_behind_a_proxy_are_served(self) -> None:
        forwarded = {
            "Host": "mail.example.org",
            "Origin": "https://mail.example.org",
            "X-Forwarded-For": "203.0.113.9",
        }
        async with running(TOKENS) as api:
            assert (await api.client.get(STATS, headers=forwarded)).status_code == 401
            forwarded["Authorization"] = f"Bearer {api.tokens['viewer']}"
            assert (await api.client.get(STATS, headers=forwarded)).status_code == 200

    async def test_with_auth_open_tokens_change_nothing(self) -> None:
        homing = Homing("memory:", provider="stub:", worker=False)
        await homing.tokens.make("ann", "viewer")
        async with running(Settings(server=ServerSettings(auth="open")), homing) as api:
            assert (await api.client.get(STATS)).status_code == 200
            refused = await api.client.get(STATS, headers={"X-Forwarded-For": "203.0.113.9"})
            assert refused.status_code == 403

    @pytest.mark.parametrize(
        ("server", "says"),
        [
            (ServerSettings(auth="token"), "server.auth: there are no API tokens; make one first"),
            (
                ServerSettings(auth="token", host="192.0.2.1"),
                "server.host: 192.0.2.1 is not loopback and there are no API tokens",
            ),
            (
                ServerSettings(auth="open", host="192.0.2.1"),
                "server.auth: open is for loopback, and server.host is 192.0.2.1",
            ),
        ],
    )
    async def test_a_start_that_lets_in_everyone_or_no_one_is_refused(
        self, server: ServerSettings, says: str
    ) -> None:
        homing = Homing("memory:", provider="stub:", worker=False)
        app = application(homing, Settings(server=server))
        with pytest.raises(SettingsError, match=re.escape(says)):
            async with app.router.lifespan_context(app):
                pass

    async def test_it_is_refused_where_it_would_guard_nothing(self) -> None:
        homing = Homing("memory:", worker=False)
        web = Web(access="trusted", standard=False)
        with pytest.raises(SettingsError, match=r"server\.auth: has no effect"):
            application(homing, TOKENS, web=web)


class TestTrust:
    """A token just looked up is believed for a moment, so that not every call asks the store."""

    @staticmethod
    def call(secret: str) -> Call:
        headers = [(b"authorization", f"Bearer {secret}".encode())]

        async def receive() -> dict[str, object]:
            raise AssertionError

        return Call({"type": "http", "headers": headers}, receive)

    async def test_it_ends_with_its_time(self, closed: Api) -> None:
        now_s = 100.0
        access_check = AccessCheck(closed.homing, CLOSED.server, steady_s=lambda: now_s)
        secret = closed.tokens["viewer"]
        assert await access_check.refusal(self.call(secret), "read") is None
        await closed.homing.tokens.revoke("the viewer")
        assert await access_check.refusal(self.call(secret), "read") is None
        now_s += 2.1
        assert await access_check.refusal(self.call(secret), "read") is not None

    async def test_a_use_does_not_make_it_longer(self, closed: Api) -> None:
        """A program that calls all the time is let in no longer than any other."""
        now_s = 100.0
        access_check = AccessCheck(closed.homing, CLOSED.server, steady_s=lambda: now_s)
        secret = closed.tokens["viewer"]
        assert await access_check.refusal(self.call(secret), "read") is None
        await closed.homing.tokens.revoke("the viewer")
        for status in (None, 401):
            now_s += 1.1
            refused = await access_check.refusal(self.call(secret), "read")
            assert (None if refused is None else refused.status_code) == status

    async def test_it_is_bounded(self, closed: Api, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("homing.web.access.auth.MAX_TRUSTED", 2)
        assert MAX_TRUSTED > 2
        access_check = AccessCheck(closed.homing, CLOSED.server, steady_s=lambda: 0.0)
        for secret in closed.tokens.values():
            await access_check.refusal(self.call(secret), "read")
        assert len(access_check._trusted) == 2
