"""People: signing in and out, the ends of a session, roles, the person in the audit."""

from __future__ import annotations

import getpass
import re
from collections.abc import AsyncIterator
from typing import ClassVar

import pytest

from homing.domain.errors import InvalidRequest, NotAllowed, NotFound, SettingsError
from homing.engine.access import passwords
from homing.plugins.value import Endpoint, HttpRequest, HttpResponse, NoSettings, Service, Web
from homing.runtime.app import Homing
from homing.settings import Settings
from homing.settings.durations import Seconds
from homing.settings.tree import ServerSettings
from homing.web.application import application
from tests.unit.web.conftest import Api
from tests.unit.web.people import (
    PASSWORD,
    PROXY,
    SESSIONS,
    browser,
    cheap_passwords,  # noqa: F401 - a fixture
    sign_in,
    with_people,
)

STATS = "/api/v1/stats"
NOBODY = "01a1e000-0000-7000-8000-000000000000"
VERB = {"reason": "gone"}


@pytest.fixture
async def api() -> AsyncIterator[Api]:
    async with with_people() as api:
        yield api


class TestSigningIn:
    async def test_with_auth_session_people_sign_in_and_programs_use_tokens(self, api: Api) -> None:
        assert (await api.client.get(STATS)).status_code == 401
        answer = await sign_in(api.client)
        assert answer.json()["name"] == "the operator"
        assert answer.json()["rights"] == ["operate", "read"]
        assert (await api.client.get(STATS)).status_code == 200
        program = browser(api.app)
        program.headers["Authorization"] = f"Bearer {api.tokens['admin']}"
        assert (await program.get(STATS)).status_code == 200
        assert (await program.get("/api/v1/me")).json()["kind"] == "token"

    async def test_without_a_setting_the_first_user_closes_the_open_service(self) -> None:
        async with with_people(ServerSettings()) as api:
            assert (await api.client.get(STATS)).status_code == 401
            assert (await sign_in(api.client)).status_code == 200
            assert (await api.client.get(STATS)).status_code == 200

    async def test_the_cookie_is_for_this_host_alone_and_no_script_reads_it(self, api: Api) -> None:
        plain = (await sign_in(api.client)).headers["set-cookie"]
        assert re.fullmatch("homing_session=[0-9a-f]{64}; Path=/; HttpOnly; SameSite=Strict", plain)
        encrypted = browser(api.app, base="https://mail.example.org")
        cookie = (await sign_in(encrypted)).headers["set-cookie"]
        assert cookie.startswith("__Host-homing_session=")
        assert cookie.endswith("; Path=/; HttpOnly; SameSite=Strict; Secure")
        assert (await encrypted.get(STATS)).status_code == 200

    async def test_a_wrong_name_and_a_wrong_password_have_the_same_answer(self, api: Api) -> None:
        answers = [
            await sign_in(api.client, "the operator", "a wrong password"),
            await sign_in(api.client, "nobody", PASSWORD),
        ]
        assert {answer.status_code for answer in answers} == {401}
        assert answers[0].json() == answers[1].json()
        assert not any("set-cookie" in answer.headers for answer in answers)

    async def test_the_store_keeps_neither_password_nor_secret(self, api: Api) -> None:
        secret = (await sign_in(api.client)).headers["set-cookie"].partition("=")[2][:64]
        stored = f"{await api.homing.store.facts('user')}{await api.homing.store.facts('session')}"
        assert PASSWORD not in stored
        assert secret not in stored


class TestTheEndOfASession:
    async def test_it_ends_when_it_is_not_used(self) -> None:
        server = ServerSettings(
            auth="session", session_idle=Seconds(600.0), session_max=Seconds(3600.0)
        )
        async with with_people(server) as api:
            await sign_in(api.client)
            for _ in range(3):
                api.clock.advance(500)
                forget_lookups(api)
                assert (await api.client.get(STATS)).status_code == 200
            api.clock.advance(601)
            forget_lookups(api)
            assert (await api.client.get(STATS)).status_code == 401

    async def test_it_ends_after_its_longest_time_however_much_it_is_used(self) -> None:
        server = ServerSettings(
            auth="session", session_idle=Seconds(600.0), session_max=Seconds(1000.0)
        )
        async with with_people(server) as api:
            await sign_in(api.client)
            for status in (200, 200, 401):
                api.clock.advance(400)
                forget_lookups(api)
                assert (await api.client.get(STATS)).status_code == status

    async def test_signing_out_ends_this_session_alone(self, api: Api) -> None:
        other = browser(api.app)
        await sign_in(api.client)
        await sign_in(other)
        stolen = dict(api.client.cookies)
        done = await api.client.post("/api/v1/sign-out", json={})
        assert "Max-Age=0" in done.headers["set-cookie"]
        thief = browser(api.app)
        thief.cookies.update(stolen)
        assert (await thief.get(STATS)).status_code == 401
        assert (await other.get(STATS)).status_code == 200

    async def test_signing_out_everywhere_ends_all_sessions_of_the_person(self, api: Api) -> None:
        other, another = browser(api.app), browser(api.app)
        for client, name in (
            (api.client, "the operator"),
            (other, "the operator"),
            (another, "the viewer"),
        ):
            await sign_in(client, name)
            assert (await client.get(STATS)).status_code == 200  # and is trusted for a moment
        await api.client.post("/api/v1/sign-out", json={"everywhere": True})
        assert (await other.get(STATS)).status_code == 401
        assert (await another.get(STATS)).status_code == 200

    @pytest.mark.parametrize("act", ["remove", "sign_out", "set_password"])
    async def test_it_ends_with_what_it_was_bound_to(self, api: Api, act: str) -> None:
        await sign_in(api.client)
        more = ("another password",) if act == "set_password" else ()
        await getattr(api.homing.users, act)("the operator", *more)
        forget_lookups(api)
        assert (await api.client.get(STATS)).status_code == 401

    async def test_a_namesake_of_a_removed_user_has_none_of_the_sessions(self, api: Api) -> None:
        await sign_in(api.client)
        await api.homing.users.remove("the operator")
        await api.homing.users.add("the operator", "admin", PASSWORD)
        forget_lookups(api)
        assert (await api.client.get(STATS)).status_code == 401


class TestTheAudit:
    async def test_each_act_is_signed_with_the_person(self, api: Api) -> None:
        await sign_in(api.client, "the admin")
        first, second = await api.dead("a"), await api.dead("b")
        await api.client.post(f"/api/v1/deliveries/{first}/dismiss", json=VERB)
        named = {**VERB, "actor": "bob"}
        await api.client.post(f"/api/v1/deliveries/{second}/dismiss", json=named)
        assert await actors(api, first) == ["the admin"]
        assert await actors(api, second) == ["bob (signed in as the admin)"]

    async def test_in_open_mode_it_is_the_local_user(self) -> None:
        async with with_people(ServerSettings(auth="open")) as api:
            delivery_id = await api.dead()
            await api.client.post(f"/api/v1/deliveries/{delivery_id}/dismiss", json=VERB)
            assert await actors(api, delivery_id) == [getpass.getuser()]

    async def test_the_last_use_of_a_token_is_known_to_an_admin(self, api: Api) -> None:
        await sign_in(api.client, "the admin")
        [token] = (await api.client.get("/api/v1/tokens")).json()["items"]
        assert token["last_used_at_ms"] is None
        program = browser(api.app)
        program.headers["Authorization"] = f"Bearer {api.tokens['admin']}"
        await program.get(STATS)
        [token] = (await api.client.get("/api/v1/tokens")).json()["items"]
        assert (token["name"], token["last_used_at_ms"]) == ("shop", api.clock.now_ms())
        users = (await api.client.get("/api/v1/users")).json()["items"]
        assert [user["role"] for user in users] == ["admin", "operator", "viewer"]


class TestProxy:
    NAMED: ClassVar = {"X-Forwarded-User": "the operator", "Host": "mail.example.org"}

    async def test_the_named_proxy_names_the_person(self) -> None:
        for peer in ("10.1.2.3", "::ffff:10.1.2.3", "fd00::7"):
            async with with_people(PROXY, peer) as api:
                me = (await api.client.get("/api/v1/me", headers=self.NAMED)).json()
                assert (me["name"], me["role"], me["kind"]) == (
                    "the operator",
                    "operator",
                    "person",
                )

    async def test_unknown_people_have_the_role_of_the_setting_or_none(self) -> None:
        stranger = {**self.NAMED, "X-Forwarded-User": "eve@example.org"}
        async with with_people(PROXY, "10.1.2.3") as api:
            assert (await api.client.get(STATS, headers=stranger)).status_code == 401
        with_role = ServerSettings(
            **{name: getattr(PROXY, name) for name in PROXY.__struct_fields__}
            | {"proxy_role": "viewer"}
        )
        async with with_people(with_role, "10.1.2.3") as api:
            me = (await api.client.get("/api/v1/me", headers=stranger)).json()
            assert (me["name"], me["role"]) == ("eve@example.org", "viewer")

    async def test_a_token_of_ours_counts_more_and_one_of_the_proxy_nothing(self) -> None:
        async with with_people(PROXY, "10.1.2.3") as api:
            for bearer, name in ((api.tokens["admin"], "shop"), ("eyJhbGciOi", "the operator")):
                headers = {**self.NAMED, "Authorization": f"Bearer {bearer}"}
                assert (await api.client.get("/api/v1/me", headers=headers)).json()["name"] == name


class TestUsers:
    async def test_they_are_checked(self) -> None:
        users = Homing("memory:").users
        await users.add("ann", "admin", PASSWORD)
        await users.add("proxied", "viewer", None)
        assert await users.check("ann", PASSWORD) is not None
        for name, password in (("ann", "another"), ("an", PASSWORD), ("proxied", ""), ("", "")):
            assert await users.check(name, password) is None

    @pytest.mark.parametrize(
        ("name", "role", "password", "error"),
        [
            ("ann", "sender", PASSWORD, InvalidRequest),
            ("ann", "viewer", "short", InvalidRequest),
            ("ann", "viewer", "", InvalidRequest),
            (" ann", "viewer", PASSWORD, InvalidRequest),
            ("a\nb", "viewer", PASSWORD, InvalidRequest),
            ("", "viewer", PASSWORD, InvalidRequest),
            ("bob", "viewer", PASSWORD, NotAllowed),
        ],
    )
    async def test_what_is_wrong_is_refused(
        self, name: str, role: str, password: str, error: type[Exception]
    ) -> None:
        users = Homing("memory:").users
        await users.add("bob", "viewer", PASSWORD)
        with pytest.raises(error):
            await users.add(name, role, password)
        assert [user.name for user in await users.all()] == ["bob"]

    async def test_one_that_is_not_there_cannot_be_changed(self) -> None:
        users = Homing("memory:").users
        for act in (users.remove, users.sign_out):
            with pytest.raises(NotFound):
                await act("ann")

    def test_a_hash_keeps_its_own_cost(self, monkeypatch: pytest.MonkeyPatch) -> None:
        stored = passwords.hashed(PASSWORD, b"salt")
        monkeypatch.setattr(passwords, "COST", passwords.Cost(log_n=5, r=1, p=1))
        assert passwords.matches(PASSWORD, stored)
        assert passwords.hashed(PASSWORD, b"salt") != stored


class TestStart:
    @pytest.mark.parametrize("host", ["127.0.0.1", "192.0.2.1"])
    async def test_without_any_user_it_is_refused(self, host: str) -> None:
        homing = Homing("memory:", provider="stub:", worker=False)
        await homing.tokens.make("shop", "sender")
        app = application(homing, Settings(server=ServerSettings(auth="session", host=host)))
        with pytest.raises(SettingsError, match="there are no users; make one first: homing user"):
            async with app.router.lifespan_context(app):
                pass

    async def test_users_alone_are_enough_on_other_addresses(self) -> None:
        async with with_people(ServerSettings(host="192.0.2.1")) as api:
            assert (await api.client.get(STATS)).status_code == 401


async def test_a_plugin_with_access_by_session_serves_people_alone() -> None:
    async def answer(service: Service[NoSettings], request: HttpRequest) -> HttpResponse:
        del service
        return HttpResponse(json={"caller": request.caller, "csrf_token": request.csrf_token})

    web = Web(
        access="session",
        standard=True,
        endpoints=(
            Endpoint(method="GET", path="/desk", handle=answer, right="read"),
            Endpoint(method="POST", path="/desk", handle=answer, right="operate"),
        ),
    )
    homing = Homing("memory:", provider="stub:", worker=False)
    await homing.users.add("the operator", "operator", PASSWORD)
    token = await homing.tokens.make("shop", "admin")
    settings = Settings(store="memory:", server=SESSIONS)
    app = application(homing, settings, web=web, service=Service(homing, NoSettings(), settings))
    async with app.router.lifespan_context(app), browser(app) as client:
        bearer = {"Authorization": f"Bearer {token}"}
        assert (await client.get("/desk", headers=bearer)).status_code == 403
        await sign_in(client)
        shown = (await client.get("/desk")).json()
        assert shown["caller"] == "the operator"
        del client.headers["X-CSRF-Token"]
        for token, status in (("", 403), ("x" * 64, 403), (shown["csrf_token"], 200)):
            posted = await client.post("/desk", data={"csrf_token": token, "field": "1"})
            assert posted.status_code == status


async def actors(api: Api, delivery_id: str) -> list[str]:
    answer = await api.client.get(f"/api/v1/deliveries/{delivery_id}/audit")
    return [entry["actor"] for entry in answer.json()["items"]]


def forget_lookups(api: Api) -> None:
    """As if two seconds had passed since the last request."""
    api.app.access_check._trusted.clear()
