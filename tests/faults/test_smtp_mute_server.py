"""A server that falls silent: what never left is called not sent, and recovery is at once."""

import asyncio

import pytest

from homing.domain.failure import Failure
from homing.ports import Accepted
from homing.providers.smtp import SmtpProvider
from homing.providers.smtp.sending import Sending
from tests.unit.smtp.sending import accepted, envelope, prove, provider, send
from tests.unit.smtp.wire_server import (
    LOCK_STEP,
    PIPELINING,
    Answer,
    Client,
    Drip,
    Hang,
    WireServer,
)

BOTH = pytest.mark.parametrize("features", [PIPELINING, LOCK_STEP], ids=["pipelined", "lock-step"])


class Mute:
    """Answers no final dot while `is_mute`; takes everything before it."""

    def __init__(self, verb: str = "dot") -> None:
        self.is_mute = True
        self.verb = verb

    def __call__(self, verb: str, _client: Client) -> Answer | None:
        return Hang() if self.is_mute and verb == self.verb else None


@BOTH
async def test_of_many_queued_only_those_that_left_may_have_been_sent(
    features: tuple[str, ...],
) -> None:
    told: list[Accepted | Failure] = []
    async with WireServer(features, to_client=Mute()) as server, provider(server.url) as smtp:
        prove(smtp, latency_s=0.001)
        sendings = await many(smtp, 64)
        for one in sendings:
            one.start(told.append)
        await server.got(messages=8)
        may_be_sent = [one.withdraw() for one in sendings]
    assert may_be_sent.count(True) == len(server.messages) == 8
    assert told == []


@BOTH
async def test_when_the_server_recovers_mail_flows_at_once(features: tuple[str, ...]) -> None:
    """The half-open connections would be waited for until `dot_timeout_s`."""
    mute = Mute()
    async with WireServer(features, to_client=mute) as server, provider(server.url) as smtp:
        prove(smtp, latency_s=0.001)
        sendings = await many(smtp, 20)
        for one in sendings:
            one.start(lambda _: None)
        await server.got(messages=8)
        mute.is_mute = False
        for one in sendings:
            one.withdraw()
        async with asyncio.timeout(20):
            outcomes = await asyncio.gather(*(send(smtp) for _ in range(20)))
    assert all(isinstance(outcome, Accepted) for outcome in outcomes)


@pytest.mark.parametrize("verb", ["mail", "rcpt", "data"])
async def test_one_that_is_withdrawn_before_its_content_was_not_sent(verb: str) -> None:
    async with WireServer(to_client=Mute(verb)) as server, provider(server.url) as smtp:
        [one] = await many(smtp, 1)
        one.start(lambda _: None)
        await server.heard("DATA" if verb == "data" else "MAIL FROM:<shop@example.org>")
        assert one.withdraw() is False
        assert one.withdraw() is False
    assert server.messages == []


async def test_one_that_was_never_started_on_a_connection_was_not_sent() -> None:
    async with WireServer() as server, provider(server.url) as smtp:
        [one] = await many(smtp, 1)
        one.start(lambda _: None)
        assert one.withdraw() is False
        await accepted(smtp)
    assert len(server.messages) == 1


async def test_a_dot_that_was_about_to_leave_does_not_leave_when_it_is_withdrawn() -> None:
    """Its content waits to be written together with that of others, and the next behind it."""
    async with WireServer() as server, provider(server.url + "&pool=1") as smtp:
        prove(smtp, latency_s=0.001)
        await accepted(smtp)
        first, second = await many(smtp, 2)
        answer: asyncio.Future[Accepted | Failure] = asyncio.get_running_loop().create_future()
        first.start(lambda _: None)
        second.start(answer.set_result)
        [connection] = smtp._pool._live
        flush = connection.flush
        withdrawn: list[bool] = []

        def late() -> None:
            if connection._dialogue.awaiting == "dot" and not withdrawn:
                withdrawn.append(first.withdraw())
            flush()

        connection.flush = late  # type: ignore[method-assign] # to act at this very moment
        assert isinstance(await answer, Accepted)
    assert withdrawn == [False]
    assert len(server.messages) == 2


async def test_one_behind_a_withdrawn_one_is_still_answered() -> None:
    slow = Drip("250 ok\r\n", every_s=0.02)
    server = WireServer(dot=["250 ok", slow, "250 ok"])
    async with server, provider(server.url + "&pool=1") as smtp:
        prove(smtp, latency_s=0.001)
        await accepted(smtp)
        first, second = await many(smtp, 2)
        answer: asyncio.Future[Accepted | Failure] = asyncio.get_running_loop().create_future()
        first.start(lambda _: None)
        second.start(answer.set_result)
        await server.got(messages=2)
        assert first.withdraw() is True
        assert isinstance(await answer, Accepted)
    assert len(server.clients) == 1


async def many(smtp: SmtpProvider, number: int) -> list[Sending]:
    prepared = await smtp.prepare_some([envelope() for _ in range(number)])
    sendings = [one for one in prepared if isinstance(one, Sending)]
    assert len(sendings) == number
    return sendings
