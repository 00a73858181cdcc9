"""The line breaks: before the final dot nothing was sent, after it nobody can say."""

import asyncio

import pytest

from homing.domain.failure import Failure
from homing.ports import Accepted
from homing.providers.smtp import connection
from tests.unit.smtp.sending import accepted, envelope, failed, prove, provider, send
from tests.unit.smtp.wire_server import LOCK_STEP, PIPELINING, Answers, Cut, WireServer

BOTH = pytest.mark.parametrize("features", [PIPELINING, LOCK_STEP], ids=["pipelined", "lock-step"])


@BOTH
@pytest.mark.parametrize(
    "answers",
    [{"mail": Cut()}, {"rcpt": Cut()}, {"data": Cut()}, {"data": Cut(after="354 go")}],
    ids=["mail", "rcpt", "data", "content"],
)
async def test_a_cut_before_the_dot_is_not_sent(
    features: tuple[str, ...], answers: dict[str, Answers]
) -> None:
    # A large message: part of the content is out when the line breaks, its dot is not.
    message = envelope(data=b"x\r\n" * 3_000_000)
    async with WireServer(features, by_verb=answers) as server, provider(server.url) as smtp:
        outcome = await failed(smtp, message)
    assert (outcome.error_class, outcome.disposition) == ("connection_lost", "retry")
    assert not outcome.maybe_sent
    assert server.messages == []


@BOTH
async def test_a_cut_after_the_dot_may_have_been_sent(features: tuple[str, ...]) -> None:
    async with WireServer(features, dot=Cut()) as server, provider(server.url) as smtp:
        outcome = await failed(smtp)
    assert (outcome.error_class, outcome.maybe_sent) == ("connection_lost", True)
    assert len(server.messages) == 1


async def test_a_cut_after_the_dot_keeps_what_is_known_of_single_recipients() -> None:
    server = WireServer(rcpt=["250 ok", "550 5.1.1 no"], dot=Cut())
    async with server, provider(server.url) as smtp:
        outcome = await failed(smtp, envelope("ann@example.org", "bob@example.org"))
    assert outcome.maybe_sent
    assert list(outcome.refused) == ["bob@example.org"]


async def test_a_cut_in_the_middle_of_the_answer_to_the_dot_is_doubt() -> None:
    async with WireServer(dot=lambda _: "250-half an ans") as server, provider(server.url) as smtp:
        sending = asyncio.create_task(failed(smtp))
        await server.got(messages=1)
        await server.hang_up()
        outcome = await sending
    assert outcome.maybe_sent


async def test_doubt_is_for_one_message_and_the_one_behind_it_is_sent_elsewhere() -> None:
    """Pipelined behind an unanswered dot: its envelope is lost, its content never left."""
    server = WireServer(dot=["250 first", Cut(), "250 third"])
    async with server, provider(server.url + "&pool=1") as smtp:
        prove(smtp, latency_s=0.01)
        await accepted(smtp)
        names = ("ann@example.org", "bob@example.org")
        second, third = await asyncio.gather(*(send(smtp, envelope(name)) for name in names))
    assert isinstance(second, Failure)
    assert second.maybe_sent
    assert isinstance(third, Accepted)
    assert any(b".\r\nMAIL FROM:" in read for read in server.clients[0].reads)
    assert len(server.messages) == 3


async def test_a_fresh_connection_that_breaks_is_a_failure_and_not_tried_again() -> None:
    async with WireServer(mail=Cut()) as server, provider(server.url) as smtp:
        await failed(smtp)
    assert len(server.clients) == 1


async def test_a_connection_that_rested_too_long_is_replaced_without_a_failure(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(connection, "STALE_AFTER_S", -1.0)
    async with WireServer(mail=[Cut(), "250 ok"]) as server, provider(server.url) as smtp:
        await accepted(smtp)
    assert [len(client.messages) for client in server.clients] == [0, 1]


async def test_a_message_is_tried_on_a_second_connection_only_once() -> None:
    server = WireServer(mail=["250 ok", Cut()])
    async with server, provider(server.url) as smtp:
        await accepted(smtp)
        outcome = await failed(smtp)
    assert (outcome.error_class, outcome.maybe_sent) == ("connection_lost", False)
    assert len(server.clients) == 2


async def test_nobody_listens() -> None:
    async with WireServer() as server:
        url = server.url
    async with provider(url) as smtp:
        outcome = await failed(smtp)
    assert (outcome.error_class, outcome.disposition) == ("connect_failed", "retry")


async def test_a_name_that_does_not_exist() -> None:
    async with provider("smtp://no-such-host.invalid?connect_timeout_s=20") as smtp:
        outcome = await failed(smtp)
    assert outcome.disposition == "retry"
    assert outcome.error_class in ("connect_failed", "timed_out")


@pytest.mark.parametrize("verb", ["greeting", "ehlo"])
async def test_a_cut_in_the_handshake(verb: str) -> None:
    async with WireServer(by_verb={verb: Cut()}) as server, provider(server.url) as smtp:
        outcome = await failed(smtp)
    assert (outcome.error_class, outcome.maybe_sent) == ("connection_lost", False)


async def test_the_pool_recovers_when_the_server_comes_back() -> None:
    server = WireServer(greeting=["421 4.3.2 starting", "220 ready"])
    async with server, provider(server.url) as smtp:
        assert (await failed(smtp)).code == "421"
        await accepted(smtp)
