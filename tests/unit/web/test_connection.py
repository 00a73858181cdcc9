"""Whole messages over a real socket: the quick way says what ASGI's own way would say."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing

import pytest

from homing.runtime.app import Homing
from homing.settings import Settings
from homing.web import serving
from homing.web.application import application
from homing.web.http.answers import SECURITY_HEADERS
from homing.web.http.calls import Call
from homing.web.http.connection import Connection, WholeMessages
from homing.web.serving import Server, bind

BODY = b'{"to":["ann@example.org"],"subject":"Booked","text":"See you"}'


class Caller:
    """One connection that is kept open."""

    def __init__(
        self, server: Server, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self._server = server
        self._reader = reader
        self._writer = writer

    @property
    def served_by(self) -> Connection:
        """Its other end."""
        [connection] = self._server.server_state.connections
        assert isinstance(connection, Connection)
        return connection

    async def ask(self, request: bytes, *, body: bool = True) -> tuple[bytes, dict[bytes, bytes]]:
        """The status line and the headers, each of which may stand there once."""
        self._writer.write(request)
        head = await self._reader.readuntil(b"\r\n\r\n")
        status, *lines = head.removesuffix(b"\r\n\r\n").split(b"\r\n")
        headers = dict(line.split(b": ", 1) for line in lines)
        assert len(headers) == len(lines)
        if body:
            await self._reader.readexactly(int(headers[b"content-length"]))
        return status, headers

    async def post(self, key: bytes, *more: bytes) -> tuple[bytes, dict[bytes, bytes]]:
        head = (
            b"POST /api/v1/deliveries HTTP/1.1",
            b"Host: localhost",
            b"Content-Type: application/json",
            b"Idempotency-Key: " + key,
            b"Content-Length: %d" % len(BODY),
            *more,
        )
        return await self.ask(b"\r\n".join(head) + b"\r\n\r\n" + BODY)

    async def at_end(self) -> bool:
        return not await self._reader.read()


@asynccontextmanager
async def calling() -> AsyncIterator[Caller]:
    app = application(Homing("memory:", provider="stub:", worker=False), Settings(store="memory:"))
    server = Server(app, shutdown_grace_s=1.0)
    with closing(bind("127.0.0.1", 0)) as listener:
        listener.listen()
        async with app.router.lifespan_context(app):
            running = asyncio.ensure_future(server.serve(sockets=[listener]))
            reader, writer = await asyncio.open_connection(*listener.getsockname())
            try:
                yield Caller(server, reader, writer)
            finally:
                writer.close()
                server.should_exit = True
                await running


async def test_every_answer_has_its_length_its_date_and_the_security_headers() -> None:
    async with calling() as caller:
        answers = [
            await caller.post(b"k"),
            await caller.post(b"k"),
            await caller.ask(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"),
            await caller.ask(b"GET /nope HTTP/1.1\r\nHost: localhost\r\n\r\n"),
            await caller.ask(b"DELETE /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"),
            await caller.ask(b"HEAD / HTTP/1.1\r\nHost: localhost\r\n\r\n", body=False),
            await caller.post(b"l", b"Connection: close"),
        ]
        assert await caller.at_end()

    assert [status[9:12] for status, _ in answers] == [
        b"202",
        b"200",
        b"200",
        b"404",
        b"405",
        b"200",
        b"202",
    ]
    for _, headers in answers:
        assert {b"content-length", b"content-type", b"date"} <= headers.keys()
        assert headers.keys() >= {name for name, _ in SECURITY_HEADERS}
    assert [headers.get(b"connection") for _, headers in answers] == [None] * 6 + [b"close"]
    assert answers[3][1][b"content-type"] == b"application/problem+json"
    # What one answer has beside these, it keeps.
    assert answers[4][1][b"allow"] == b"GET, HEAD"
    # The page of the people has a policy and keeps it.
    assert b"text/html" in answers[5][1][b"content-type"]


async def test_an_answered_request_leaves_nothing_to_the_garbage_collector() -> None:
    """Four thousand knots a second would cost pauses, and memory until the next one."""
    async with calling() as caller:
        await caller.post(b"first")
        gc.collect()
        gc.disable()
        try:
            of_other_tests = calls_in_memory()
            for number in range(20):
                await caller.post(b"k-%d" % number)
            left = calls_in_memory()
        finally:
            gc.enable()

    assert [one for one in left if one not in of_other_tests] == []


def calls_in_memory() -> list[object]:
    # Not `isinstance`: that would wake what other tests have left asleep.
    return [one for one in gc.get_objects() if type(one) in (WholeMessages, Call)]


async def test_nothing_is_written_to_a_peer_that_does_not_read() -> None:
    """Otherwise one that only asks would fill the memory with its answers."""
    async with calling() as caller:
        await caller.post(b"k")
        caller.served_by.pause_writing()
        asked = asyncio.ensure_future(
            caller.ask(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        )
        for _ in range(100):
            await asyncio.sleep(0)
        assert not asked.done()

        caller.served_by.resume_writing()

        status, _ = await asked
        assert status.endswith(b"200 OK")


async def test_a_connection_is_not_idle_while_it_is_answered() -> None:
    """However long that takes: the timer of the request before it rings meanwhile."""
    async with calling() as caller:
        await caller.post(b"k")
        stream = b"GET /api/v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n"
        status, _ = await caller.ask(stream, body=False)
        assert status.endswith(b"200 OK")
        connection = caller.served_by
        connection._idle_since_s = float("-inf")

        connection._look_whether_idle()

        assert not connection.transport.is_closing()


async def test_a_connection_that_was_used_is_closed_once_it_is_idle(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(serving, "KEEP_ALIVE_S", 1.0)
    async with calling() as caller:
        # The timer of the first one rings while the connection has been idle for less.
        for number in range(8):
            await caller.post(b"k-%d" % number)
        assert await caller.at_end()
