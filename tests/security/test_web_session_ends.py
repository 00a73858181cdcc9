"""Where access ends: unattended pages, open streams, secrets in the wrong place, guessing."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from homing.web.access.login_limits import FAILURES, LoginLimits
from tests.unit.web.conftest import Api
from tests.unit.web.people import (
    PASSWORD,
    browser,
    cheap_passwords,  # noqa: F401 - a fixture
    sign_in,
    with_people,
)

STATS = "/api/v1/stats"
IDLE_S = 2 * 3600.0
# As a page that is open reads itself again.
BY_SCRIPT = {"Sec-Fetch-Site": "same-origin", "Sec-Fetch-Mode": "cors", "Sec-Fetch-Dest": "empty"}
BY_PERSON = {
    "Sec-Fetch-Site": "same-origin",
    "Sec-Fetch-Mode": "navigate",
    "Sec-Fetch-Dest": "document",
}


class TestUnattended:
    @pytest.mark.parametrize(("headers", "status"), [(BY_SCRIPT, 401), (BY_PERSON, 200)])
    async def test_a_page_that_reads_itself_again_keeps_no_session_alive(
        self, headers: dict[str, str], status: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("homing.web.access.auth.TRUST_S", 0.0)
        async with with_people() as api:
            await sign_in(api.client)
            for _ in range(4):
                api.clock.advance(IDLE_S / 4)
                assert (await api.client.get(STATS, headers=headers)).status_code == 200
            api.clock.advance(IDLE_S / 4)
            assert (await api.client.get(STATS, headers=headers)).status_code == status

    async def test_a_person_is_noticed_between_the_reads_of_the_page(self) -> None:
        """What was trusted for a script is looked up again for a person."""
        async with with_people() as api:
            await sign_in(api.client)
            api.clock.advance(IDLE_S * 0.9)
            for headers in (BY_SCRIPT, BY_PERSON):
                assert (await api.client.get(STATS, headers=headers)).status_code == 200
            [fact] = await api.homing.store.facts("session")
            assert fact.at_ms == api.clock.now_ms()

    async def test_a_change_by_a_script_is_an_act_of_its_person(self) -> None:
        async with with_people() as api:
            await sign_in(api.client)
            api.clock.advance(IDLE_S * 0.9)
            body = {"reason": "it fails"}
            done = await api.client.post("/api/v1/routes/mail/pause", json=body, headers=BY_SCRIPT)
            assert done.status_code == 200
            [fact] = await api.homing.store.facts("session")
            assert fact.at_ms == api.clock.now_ms()


async def _streamed(api: Api, path: str, headers: dict[str, str]) -> asyncio.Task[Any]:
    """A stream that is open, as a task that ends with it."""
    opened = asyncio.Event()

    async def send(message: Any) -> None:
        opened.set()

    async def receive() -> Any:
        await asyncio.Event().wait()

    scope = {
        "type": "http",
        "method": "GET",
        "path": path,
        "query_string": b"",
        "scheme": "http",
        "client": ("127.0.0.1", 4711),
        "headers": [
            (b"host", b"127.0.0.1:8025"),
            *((name.lower().encode(), value.encode()) for name, value in headers.items()),
        ],
    }
    task = asyncio.ensure_future(api.app(scope, receive, send))
    await opened.wait()
    return task


@pytest.mark.parametrize("path", ["/api/v1/events", "/live"])
async def test_a_stream_ends_with_the_access_of_its_reader(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("homing.web.access.auth.TRUST_S", 0.0)
    monkeypatch.setattr("homing.web.api.ticks.TICK_EVERY_S", 0.01)
    async with with_people() as api:
        token = await api.homing.tokens.make("screen", "viewer")
        streams = [await _streamed(api, path, {"Authorization": f"Bearer {token}"})]
        await sign_in(api.client)
        cookie = f"homing_session={api.client.cookies['homing_session']}"
        streams.append(await _streamed(api, path, {"Cookie": cookie}))
        await api.homing.tokens.revoke("screen")
        await api.homing.users.sign_out("the operator")
        await api.homing.submit(_mail(), key="news")
        await api.work()
        await asyncio.gather(*streams)


def _mail() -> Any:
    from homing.domain.message import Email

    return Email(to="ok@stub.test", subject="Booked", text="See you")


class TestSecretsInTheWrongPlace:
    async def test_the_secret_of_a_session_is_no_token(self) -> None:
        """Even while that session is known from a moment ago."""
        async with with_people() as api:
            await sign_in(api.client)
            assert (await api.client.get(STATS)).status_code == 200
            secret = api.client.cookies["homing_session"]
            bearer = {"Authorization": f"Bearer {secret}"}
            assert (await browser(api.app).get(STATS, headers=bearer)).status_code == 401

    @pytest.mark.parametrize("name", ["token", "access_token", "key", "authorization"])
    async def test_a_token_in_an_address_opens_nothing(self, name: str) -> None:
        """It would stand in logs and histories."""
        async with with_people() as api:
            url = f"{STATS}?{name}={api.tokens['admin']}"
            assert (await browser(api.app).get(url)).status_code == 401

    async def test_signing_out_everywhere_is_audited(self) -> None:
        async with with_people() as api:
            await sign_in(api.client)
            await api.client.post("/api/v1/sign-out", json={"everywhere": True})
            [fact] = await api.homing.ops.audit_log(None, 10)
            assert fact.value is not None
            assert (fact.value["verb"], fact.value["actor"]) == ("sign out", "the operator")


class TestGuessing:
    def test_all_addresses_of_an_ipv6_network_count_as_one(self) -> None:
        limits = LoginLimits(lambda: 100.0)
        for number in range(FAILURES):
            limits.begin(f"2001:db8:0:7::{number:x}")
        assert limits.retry_after_s("2001:db8:0:7:ffff::1") == 61
        assert limits.retry_after_s("2001:db8:0:8::1") is None

    def test_an_ipv4_address_is_the_same_in_ipv6(self) -> None:
        limits = LoginLimits(lambda: 100.0)
        for _ in range(FAILURES):
            limits.begin("::ffff:203.0.113.7")
        assert limits.retry_after_s("203.0.113.7") == 61
        assert limits.retry_after_s("::ffff:203.0.113.8") is None

    def test_a_sign_in_that_outlasts_the_window_succeeds(self) -> None:
        now_s = 100.0
        limits = LoginLimits(lambda: now_s)
        succeeded = limits.begin("203.0.113.7")
        now_s += 61
        assert limits.retry_after_s("203.0.113.8") is None
        succeeded()

    async def test_a_wrong_name_and_a_wrong_password_have_the_same_answer(self) -> None:
        async with with_people() as api:
            wrong = await sign_in(api.client, "the admin", "a wrong guess")
            unknown = await sign_in(api.client, "the nobody", PASSWORD)
            assert (wrong.status_code, wrong.text) == (unknown.status_code, unknown.text)
            assert [*wrong.headers] == [*unknown.headers]
