"""Logins over real sockets: how often, with which token, and what is kept of a refusal."""

import asyncio
import base64
import re
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from homing.domain.failure import Failure
from homing.ports import Accepted
from homing.providers.smtp import SmtpProvider, logins
from tests.unit.smtp.sending import PASSWORD, accepted, failed, provider, send
from tests.unit.smtp.wire_server import PIPELINING, Cut, WireServer

REFUSED = "535 5.7.8 bad credentials"
AUTH = (*PIPELINING, "AUTH PLAIN LOGIN XOAUTH2")


def url(server: WireServer, login: str = f"shop:{PASSWORD}@", rest: str = "") -> str:
    return f"smtp://{login}127.0.0.1:{server.port}?tls=none{rest}"


def logins_of(server: WireServer) -> list[str]:
    return [command for command in server.commands if command.startswith("AUTH")]


@pytest.fixture
def long_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy machine may need longer than a second from one send to the next."""
    assert logins.BELIEVE_REFUSAL_S == 1.0
    monkeypatch.setattr(logins, "BELIEVE_REFUSAL_S", 60.0)


@pytest.mark.usefixtures("long_memory")
async def test_a_refused_password_is_not_tried_twice_within_a_second() -> None:
    async with WireServer(AUTH, auth=REFUSED) as server, provider(url(server)) as smtp:
        first, second = await failed(smtp), await failed(smtp)
    assert (first.error_class, first.disposition) == ("auth_failed", "route_fault")
    assert second == first
    assert len(logins_of(server)) == 1
    assert len(server.clients) == 1


async def test_a_refused_password_is_tried_again_later(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logins, "BELIEVE_REFUSAL_S", 0.0)
    async with WireServer(AUTH, auth=[REFUSED, "235 in"]) as server, provider(url(server)) as smtp:
        await failed(smtp)
        await accepted(smtp)
    assert len(logins_of(server)) == 2


@pytest.mark.usefixtures("long_memory")
async def test_a_password_that_changes_under_a_pool_is_tried_once_more_not_eight_times() -> None:
    refused = asyncio.Event()

    def changed(_line: str) -> str:
        if len(logins_of(server)) == 1:
            return "235 in"
        refused.set()
        return REFUSED

    server = WireServer(AUTH, auth=changed)
    async with server, provider(url(server)) as smtp, asyncio.timeout(30):
        outcomes = await asyncio.gather(*(send(smtp) for _ in range(40)))
        await refused.wait()
        outcomes += await asyncio.gather(*(send(smtp) for _ in range(40)))
    assert all(isinstance(outcome, Accepted) for outcome in outcomes)
    assert len(logins_of(server)) == 2


async def test_a_temporary_refusal_is_not_remembered() -> None:
    server = WireServer(AUTH, auth=["454 4.7.0 later", "235 in"])
    async with server, provider(url(server)) as smtp:
        assert (await failed(smtp)).error_class == "deferred"
        await accepted(smtp)


async def test_a_server_that_asks_again_after_plain() -> None:
    async with WireServer(AUTH, auth=["334 ", "235 in"]) as server, provider(url(server)) as smtp:
        await accepted(smtp)
    response = base64.b64encode(f"\0shop\0{PASSWORD}".encode()).decode()
    assert server.commands[1:3] == [f"AUTH PLAIN {response}", response]


async def test_the_method_that_works_comes_first_on_the_next_connection() -> None:
    asked = ["334 u", "334 p", "235 in"]
    server = WireServer(AUTH, auth=["504 5.5.4 no", *asked, *asked])
    async with server, provider(url(server, rest="&messages_per_connection=1")) as smtp:
        await accepted(smtp)
        await accepted(smtp)
    assert [line.split()[1] for line in logins_of(server)] == ["PLAIN", "LOGIN", "LOGIN"]


async def test_a_server_that_hangs_up_after_a_refusal_was_understood() -> None:
    server = WireServer(AUTH, auth=Cut(after=REFUSED))
    async with server, provider(url(server)) as smtp:
        outcome = await failed(smtp)
    assert (outcome.error_class, outcome.code) == ("auth_failed", "535")


def xoauth2(token: str) -> str:
    response = f"user=ann\1auth=Bearer {token}\1\1"
    return f"AUTH XOAUTH2 {base64.b64encode(response.encode()).decode()}"


async def test_a_token_of_the_url() -> None:
    async with WireServer(AUTH) as server, provider(url(server, "ann@", "&token=t1")) as smtp:
        await accepted(smtp)
    assert logins_of(server) == [xoauth2("t1")]


async def test_a_token_file_is_read_at_every_login(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("t1\n")
    rest = f"&token_file={file}&messages_per_connection=1"
    async with WireServer(AUTH) as server, provider(url(server, "ann@", rest)) as smtp:
        await accepted(smtp)
        file.write_text("t2\n")
        await accepted(smtp)
    assert logins_of(server) == [xoauth2("t1"), xoauth2("t2")]


def blocking() -> str:
    return "t1"


async def waiting() -> str:
    await asyncio.sleep(0)
    return "t1"


@pytest.mark.parametrize("source", [blocking, waiting])
async def test_a_function_is_asked_for_a_token(source: Callable[[], str | Awaitable[str]]) -> None:
    async with WireServer(AUTH) as server:
        smtp = SmtpProvider.from_url(url(server, "ann@"), token=source)
        try:
            await accepted(smtp)
        finally:
            await smtp.close()
    assert logins_of(server) == [xoauth2("t1")]


async def outcome_with(source: Callable[[], str]) -> tuple[Failure, WireServer]:
    async with WireServer(AUTH) as server:
        smtp = SmtpProvider.from_url(url(server, "ann@"), token=source)
        try:
            return await failed(smtp), server
        finally:
            await smtp.close()


async def test_a_function_that_fails_is_asked_again_later() -> None:
    def broken() -> str:
        raise ConnectionError("no way to https://id:hush@login.example.org")

    outcome, server = await outcome_with(broken)
    assert (outcome.error_class, outcome.disposition) == ("token_unavailable", "retry")
    assert "ConnectionError" in outcome.detail
    assert "hush" not in outcome.detail
    assert logins_of(server) == []


@pytest.mark.parametrize("text", ["", "two words", "a\r\nQUIT", "ü", None])
async def test_a_token_that_cannot_be_one_is_a_fault_of_the_route(text: str | None) -> None:
    outcome, server = await outcome_with(lambda: text)  # type: ignore[arg-type,return-value] # as careless code does
    assert (outcome.error_class, outcome.disposition) == ("auth_unavailable", "route_fault")
    assert logins_of(server) == []


async def test_a_token_file_that_is_missing_is_a_fault_of_the_route(tmp_path: Path) -> None:
    rest = f"&token_file={tmp_path / 'none'}"
    async with WireServer(AUTH) as server, provider(url(server, "ann@", rest)) as smtp:
        outcome = await failed(smtp)
    assert (outcome.error_class, outcome.disposition) == ("auth_unavailable", "route_fault")
    assert "No such file" in outcome.detail


ECHOES = ["{0}", "you sent {0}!", "AUTH {1}", "{1} is wrong", "<{0}>"]


@pytest.mark.parametrize("echo", ECHOES)
@pytest.mark.parametrize("verb", ["auth", "mail", "rcpt", "dot", "greeting"])
async def test_a_server_that_repeats_the_password_is_not_quoted(verb: str, echo: str) -> None:
    said = echo.format(PASSWORD, base64.b64encode(f"\0shop\0{PASSWORD}".encode()).decode())
    server = WireServer([*AUTH[1:]], by_verb={verb: f"550 5.7.8 {said}"})
    async with server, provider(url(server)) as smtp:
        outcome = await failed(smtp)
    assert PASSWORD not in repr(outcome)
    assert said not in repr(outcome)


async def test_a_server_that_repeats_the_token_is_not_quoted(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("opaque0815")
    rest = f"&token_file={tmp_path / 'token'}"
    server = WireServer(AUTH, dot="250 queued as opaque0815")
    async with server, provider(url(server, "ann@", rest)) as smtp:
        outcome = await accepted(smtp)
    assert "opaque0815" not in repr(outcome)


@pytest.mark.parametrize("mechanism", ["XOAUTH2", "OAUTHBEARER"])
@pytest.mark.parametrize("quoted", [slice(None), slice(400), slice(4, None)])
@pytest.mark.parametrize("token", ["ya29.TOKENsecretTOKENsecret", "eyJ0" + "1aB2-_xY" * 120])
async def test_a_server_that_repeats_the_encoded_token_is_not_quoted(
    token: str, quoted: slice, mechanism: str
) -> None:
    """Whole, without its end, or without its beginning; a long one in several lines."""

    def repeat(_line: str) -> str:
        response = server.commands[-1].split()[-1]
        if response == mechanism:
            return "334 "  # a long response is not part of the command
        lines = re.findall(".{1,480}", response[quoted])
        return "\r\n".join([*(f"501-5.5.2 {line}" for line in lines), "501 5.5.2 cannot decode"])

    server = WireServer([*PIPELINING, f"AUTH {mechanism}"], auth=repeat)
    async with server, provider(url(server, "ann@", f"&token={token}")) as smtp:
        outcome = await failed(smtp)
    response = next(line.split()[-1] for line in server.commands if len(line) > 40)
    start = base64.b64decode(response).index(token.encode())
    inside = response[-(-start * 8 // 6) : (start + len(token)) * 8 // 6]
    assert outcome.detail.endswith("cannot decode")
    assert not any(inside[at : at + 8] in outcome.detail for at in range(len(inside) - 7))
