"""A peer that resets before its greeting: a failure as any other, and nobody waits for ever."""

import asyncio
import socket
import struct
from asyncio import selector_events
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from homing.domain.failure import Failure
from homing.providers.smtp import SmtpProvider
from homing.providers.smtp.opening import Session
from tests.unit.smtp.sending import envelope, failed, prove, provider
from tests.unit.smtp.wire_server import Cut, WireServer

# On close the connection is reset instead of ended.
RESET = struct.pack("ii", 1, 0)


@asynccontextmanager
async def resetting_port() -> AsyncIterator[int]:
    """Resets every connection as soon as it is made."""
    listener = socket.create_server(("127.0.0.1", 0))
    listener.setblocking(False)
    loop = asyncio.get_running_loop()

    def reset() -> None:
        peer, _ = listener.accept()
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        peer.close()

    loop.add_reader(listener, reset)
    try:
        yield listener.getsockname()[1]
    finally:
        loop.remove_reader(listener)
        listener.close()


async def test_a_reset_before_the_greeting_is_a_failure_to_be_retried() -> None:
    async with resetting_port() as port, provider(f"smtp://127.0.0.1:{port}?tls=none") as smtp:
        for _ in range(50):
            outcome = await failed(smtp)
            assert outcome.disposition == "retry"
            assert outcome.error_class in ("connection_lost", "connect_failed")
            assert not outcome.maybe_sent


async def test_a_peer_that_is_gone_when_it_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a reset a socket has no peer and no name of its own: a busy loop sees that often."""
    named = selector_events._SelectorTransport  # type: ignore[attr-defined] # it has no public name
    monkeypatch.setattr(named, "get_extra_info", lambda *_: None)
    async with WireServer() as server, provider(server.url) as smtp:
        outcome = await failed(smtp)
    assert (outcome.error_class, outcome.disposition) == ("connection_lost", "retry")


async def test_a_letter_that_was_given_back_ends_when_no_connection_can_be_made() -> None:
    async def dial() -> Session | Failure:
        raise RuntimeError("a bug")

    async with WireServer(mail=["250 ok", Cut()]) as server:
        smtp = SmtpProvider.from_url(server.url + "&pool=1")
        prove(smtp, latency_s=0.001)
        ready = [await smtp.prepare(envelope()) for _ in range(2)]
        smtp._pool._dial = dial
        outcomes = []
        for one in ready:
            assert not isinstance(one, Failure)
            outcomes.append(await asyncio.wait_for(one.commit(), 10))
        await smtp.close()
    assert isinstance(outcomes[1], Failure)
    assert not outcomes[1].maybe_sent


async def test_when_several_connections_fail_at_once_nobody_is_left_in_the_queue() -> None:
    turned_away = asyncio.Event()

    async def dial() -> Session | Failure:
        await turned_away.wait()
        return Failure("connect_failed", "retry")

    async with WireServer() as server, provider(server.url + "&pool=1") as smtp:
        ready = await smtp.prepare(envelope())
        assert not isinstance(ready, Failure)
        pool = smtp._pool
        pool._dial = dial
        [connection] = pool._live
        await server.hang_up()
        await connection.lost
        dialling = [pool._start_dialling(), pool._start_dialling()]
        sending = asyncio.create_task(ready.commit())
        turned_away.set()
        await asyncio.wait(dialling)
        async with asyncio.timeout(10):
            outcome = await sending
    assert isinstance(outcome, Failure)
    assert (outcome.error_class, outcome.maybe_sent) == ("connect_failed", False)
