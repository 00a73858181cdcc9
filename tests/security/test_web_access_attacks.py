"""Attacks on the access of people: fixation, forged requests, guessing, spoofed headers, roles."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator
from typing import ClassVar

import pytest

from homing.engine.access import passwords
from homing.settings.tree import ServerSettings
from homing.web.access.login_limits import ALL_FAILURES, FAILURES, LoginLimits
from tests.unit.web.conftest import Api
from tests.unit.web.people import (
    PASSWORD,
    PROXY,
    browser,
    cheap_passwords,  # noqa: F401 - a fixture
    sign_in,
    with_people,
)

STATS = "/api/v1/stats"
PAUSE = "/api/v1/routes/mail/pause"
VERB = {"reason": "an attack"}


@pytest.fixture
async def api() -> AsyncIterator[Api]:
    async with with_people() as api:
        yield api


class TestFixation:
    async def test_a_planted_session_is_over_when_its_victim_signs_in(self, api: Api) -> None:
        """The attacker puts their own cookie into the victim's browser and waits."""
        attacker = browser(api.app)
        await sign_in(attacker, "the viewer")
        planted = attacker.cookies["homing_session"]
        api.client.headers["Cookie"] = f"homing_session={planted}"
        answer = await sign_in(api.client, "the admin")
        assert planted not in answer.headers["set-cookie"]
        assert (await attacker.get(STATS)).status_code == 401

    async def test_a_secret_of_the_attackers_choice_is_no_session(self, api: Api) -> None:
        for secret in ("0" * 64, "x" * 64, "", "admin", "0" * 9000):
            client = browser(api.app)
            client.cookies.set("homing_session", secret)
            assert (await client.get(STATS)).status_code == 401

    async def test_of_two_cookies_neither_counts(self, api: Api) -> None:
        """A neighbour on another port of this machine can add one, not remove ours."""
        await sign_in(api.client)
        own = api.client.cookies["homing_session"]
        for pair in (f"homing_session={own}; homing_session={'0' * 64}",):
            answer = await browser(api.app).get(STATS, headers={"Cookie": pair})
            assert answer.status_code == 401

    async def test_an_encrypted_service_takes_no_cookie_that_plain_http_could_set(
        self, api: Api
    ) -> None:
        await sign_in(api.client)
        own = api.client.cookies["homing_session"]
        encrypted = browser(api.app, base="https://mail.example.org")
        answer = await encrypted.get(STATS, headers={"Cookie": f"homing_session={own}"})
        assert answer.status_code == 401


class TestForgedRequests:
    @pytest.mark.parametrize("token", [None, "", "0" * 64, "é"])
    async def test_a_change_without_the_csrf_token_is_refused(
        self, api: Api, token: str | None
    ) -> None:
        await sign_in(api.client)
        del api.client.headers["X-CSRF-Token"]
        headers = {} if token is None else {b"X-CSRF-Token": token.encode()}
        answer = await api.client.post(PAUSE, json=VERB, headers=headers)
        assert (answer.status_code, answer.json()["field"]) == (403, "X-CSRF-Token")

    async def test_the_token_of_another_session_is_refused(self, api: Api) -> None:
        attacker = browser(api.app)
        await sign_in(attacker)
        await sign_in(api.client)
        api.client.headers["X-CSRF-Token"] = attacker.headers["X-CSRF-Token"]
        assert (await api.client.post(PAUSE, json=VERB)).status_code == 403

    @pytest.mark.parametrize(
        "origin",
        ["https://evil.example", "null", "http://127.0.0.1:9999", "http://127.0.0.1.evil.example"],
    )
    @pytest.mark.parametrize("auth", ["open", "token", "session", "proxy"])
    async def test_a_foreign_origin_is_refused_in_every_mode(self, auth: str, origin: str) -> None:
        server = PROXY if auth == "proxy" else ServerSettings(auth=auth)  # type: ignore[arg-type] # a mode by its name
        async with with_people(server) as api:
            if auth == "session":
                await sign_in(api.client)
            else:
                api.client.headers["Authorization"] = f"Bearer {api.tokens['admin']}"
            for headers, status in (({}, 200), ({"Origin": origin}, 403)):
                assert (await api.client.get(STATS, headers=headers)).status_code == status
                posted = await api.client.post(PAUSE, json=VERB, headers=headers)
                assert posted.status_code == status

    async def test_no_one_is_signed_in_by_a_page_of_another_site(self, api: Api) -> None:
        api.client.headers["Origin"] = "https://evil.example"
        assert (await sign_in(api.client)).status_code == 403

    async def test_behind_a_proxy_the_page_of_the_service_is_its_own(self, api: Api) -> None:
        headers = {
            "Host": "mail.example.org",
            "X-Forwarded-For": "203.0.113.9",
            "Authorization": f"Bearer {api.tokens['admin']}",
        }
        for origin, status in (
            ("https://mail.example.org", 200),
            ("https://mail.example.org.evil.example", 403),
            ("https://example.org", 403),
        ):
            answer = await api.client.get(STATS, headers={**headers, "Origin": origin})
            assert answer.status_code == status

    async def test_with_a_url_no_other_host_is_answered(self) -> None:
        """DNS rebinding: a name of the attacker leads to this machine."""
        server = ServerSettings(auth="session", public_url="https://mail.example.org")
        async with with_people(server) as api:
            api.client.headers["Authorization"] = f"Bearer {api.tokens['admin']}"
            for host, status in (
                ("mail.example.org", 200),
                ("127.0.0.1:8025", 200),
                ("evil.example", 403),
            ):
                answer = await api.client.get(STATS, headers={"Host": host})
                assert answer.status_code == status


class TestGuessing:
    async def test_an_address_has_few_tries(self, api: Api) -> None:
        for _ in range(FAILURES):
            assert (await sign_in(api.client, password="a wrong guess")).status_code == 401
        refused = await sign_in(api.client)
        assert refused.status_code == 429
        assert (await sign_in(browser(api.app, "203.0.113.7"))).status_code == 200

    async def test_tries_at_the_same_moment_count_as_well(self, api: Api) -> None:
        guesses = [sign_in(browser(api.app), password=f"a wrong guess {n}") for n in range(30)]
        statuses = [answer.status_code for answer in await asyncio.gather(*guesses)]
        assert statuses.count(401) == FAILURES
        assert statuses.count(429) == 30 - FAILURES

    async def test_many_addresses_have_few_tries_together(self) -> None:
        now_s = 100.0
        limits = LoginLimits(lambda: now_s)
        for number in range(ALL_FAILURES):
            assert limits.retry_after_s(f"10.0.0.{number}") is None
            limits.begin(f"10.0.0.{number}")
        assert limits.retry_after_s("10.0.1.1") == 61
        now_s += 61
        assert limits.retry_after_s("10.0.1.1") is None

    async def test_a_success_uses_up_no_try(self, api: Api) -> None:
        for _ in range(FAILURES + 1):
            assert (await sign_in(browser(api.app))).status_code == 200

    async def test_behind_a_named_proxy_each_caller_has_tries_of_their_own(self) -> None:
        server = ServerSettings(auth="session", trusted_proxies=("127.0.0.1",))
        async with with_people(server) as api:
            client = browser(api.app, base="http://mail.example.org")
            for seen, status in (("203.0.113.7", 401), ("6.6.6.6, 203.0.113.7", 429)):
                client.headers["X-Forwarded-For"] = seen
                for _ in range(FAILURES):
                    answer = await sign_in(client, password="a wrong guess")
                    assert answer.status_code == status
            client.headers["X-Forwarded-For"] = "203.0.113.8"
            assert (await sign_in(client)).status_code == 200

    async def test_others_cannot_choose_the_address_that_they_are_counted_by(
        self, api: Api
    ) -> None:
        client = browser(api.app, "203.0.113.7", "http://mail.example.org")
        for number in range(FAILURES + 1):
            client.headers["X-Forwarded-For"] = f"10.0.0.{number}"
            answer = await sign_in(client, password="a wrong guess")
            assert answer.status_code == (401 if number < FAILURES else 429)

    async def test_a_name_that_nobody_has_costs_the_same_work(
        self, api: Api, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Counted, not timed: each try computes one hash of the same cost."""
        costs: list[tuple[int, ...]] = []
        scrypt = hashlib.scrypt

        def counted(password: bytes, **more: int) -> bytes:
            costs.append((more["n"], more["r"], more["p"]))
            return scrypt(password, **more)  # type: ignore[arg-type] # as it was called

        monkeypatch.setattr(hashlib, "scrypt", counted)
        await api.homing.users.add("proxied", "admin", None)
        costs.clear()
        for name in ("the operator", "nobody", "proxied"):
            assert (await sign_in(api.client, name, "a wrong guess")).status_code == 401
        assert len(costs) == 3
        assert len(set(costs)) == 1


def test_the_cost_of_a_guess_is_what_owasp_asks_for() -> None:
    assert passwords.Cost() == passwords.Cost(log_n=15, r=8, p=3)


class TestSpoofedHeaders:
    NAMED: ClassVar = {"X-Forwarded-User": "the admin", "Host": "mail.example.org"}

    @pytest.mark.parametrize("peer", ["10.1.2.4", "127.0.0.1", "::1", "fe80::1", ""])
    async def test_only_named_addresses_name_people(self, peer: str) -> None:
        async with with_people(PROXY, peer) as api:
            more = {"X-Forwarded-For": "10.1.2.3", "X-Real-IP": "10.1.2.3", "Forwarded": "for=x"}
            for headers in (self.NAMED, {**self.NAMED, **more}):
                assert (await api.client.get(STATS, headers=headers)).status_code == 401

    async def test_a_header_that_came_with_the_request_voids_that_of_the_proxy(self) -> None:
        async with with_people(PROXY, "10.1.2.3") as api:
            headers = [*self.NAMED.items(), ("x-forwarded-user", "the viewer")]
            assert (await api.client.get(STATS, headers=headers)).status_code == 401

    @pytest.mark.parametrize("name", ["", " ", "a\x0bb", "x" * 300, "the admin\x00"])
    async def test_a_name_that_is_none_is_nobody(self, name: str) -> None:
        async with with_people(PROXY, "10.1.2.3") as api:
            headers = {**self.NAMED, "X-Forwarded-User": name}
            assert (await api.client.get(STATS, headers=headers)).status_code == 401

    async def test_the_header_means_nothing_in_other_modes(self, api: Api) -> None:
        assert (await api.client.get(STATS, headers=self.NAMED)).status_code == 401

    async def test_a_page_that_rebinds_its_name_cannot_name_a_person(self) -> None:
        """From a browser on the proxy's own machine, with the header set by its script."""
        async with with_people(PROXY, "10.1.2.3") as api:
            headers = {**self.NAMED, "Host": "evil.example"}
            assert (await api.client.get(STATS, headers=headers)).status_code == 403

    async def test_changes_need_the_token_of_this_browser(self) -> None:
        """The proxy knows people by a cookie too, so a forged request would carry it."""
        async with with_people(PROXY, "10.1.2.3") as api:
            api.client.base_url = "https://mail.example.org"
            api.client.headers["X-Forwarded-User"] = "the operator"
            assert (await api.client.post(PAUSE, json=VERB)).status_code == 403
            empty = await api.client.post(PAUSE, json=VERB, headers={"X-CSRF-Token": ""})
            assert empty.status_code == 403
            assert (await api.client.get("/api/v1/me")).json()["csrf_token"] is None
            token = (await api.client.get("/api/v1/me")).json()["csrf_token"]
            done = await api.client.post(PAUSE, json=VERB, headers={"X-CSRF-Token": token})
            assert done.status_code == 200


class TestRoles:
    @pytest.mark.parametrize(
        ("role", "reads", "operates", "administers"),
        [("viewer", 200, 403, 403), ("operator", 200, 200, 403), ("admin", 200, 200, 200)],
    )
    async def test_each_role_may_do_its_part(
        self, api: Api, role: str, reads: int, operates: int, administers: int
    ) -> None:
        await sign_in(api.client, f"the {role}")
        assert (await api.client.get(STATS)).status_code == reads
        assert (await api.client.post(PAUSE, json=VERB)).status_code == operates
        for path in ("/api/v1/users", "/api/v1/tokens"):
            assert (await api.client.get(path)).status_code == administers

    async def test_a_bad_token_is_not_saved_by_a_good_session(self, api: Api) -> None:
        """What was named explicitly counts, so that nobody acts with rights they did not mean."""
        await sign_in(api.client)
        bad = {"Authorization": "Bearer hmg_" + "0" * 48}
        assert (await api.client.get(STATS, headers=bad)).status_code == 401

    async def test_the_role_is_that_of_now_not_of_the_sign_in(self, api: Api) -> None:
        await sign_in(api.client, "the admin")
        await api.homing.users.remove("the admin")
        await api.homing.users.add("the admin", "viewer", PASSWORD)
        await sign_in(api.client, "the admin")
        assert (await api.client.post(PAUSE, json=VERB)).status_code == 403


class TestPlainText:
    async def test_no_password_is_taken_in_plain_text_from_a_network(self, api: Api) -> None:
        client = browser(api.app, "203.0.113.7", "http://mail.example.org")
        answer = await sign_in(client)
        assert answer.status_code == 403
        assert "HTTPS" in answer.json()["detail"]

    async def test_behind_a_proxy_the_cookie_travels_by_https_alone(self, api: Api) -> None:
        client = browser(api.app, base="http://127.0.0.1:8025")
        client.headers["X-Forwarded-For"] = "203.0.113.7"
        assert "; Secure" in (await sign_in(client)).headers["set-cookie"]
