"""uvloop with asyncio's happy eyeballs: an address that does not answer holds nobody up."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

import pytest

from tests.servers import free_port

pytest.importorskip("uvloop")

from homing.web.quick_loop import QuickLoop, interleaved

DELAY_S = 0.05
NAME = "mail.example.org"
SILENT = "127.0.0.77"


def info(address: str, port: int, family: int = socket.AF_INET) -> Any:
    return (family, socket.SOCK_STREAM, 6, "", (address, port))


def run(work: Any) -> Any:
    with asyncio.Runner(loop_factory=QuickLoop) as runner:
        return runner.run(work)


async def connect(found: list[Any], port: int) -> str:
    """Whom a connection reached, when the name has these addresses."""
    loop = asyncio.get_running_loop()

    async def getaddrinfo(host: Any, *given: Any, **named: Any) -> Any:
        if host == NAME:
            return found
        return await QuickLoop.getaddrinfo(loop, host, *given, **named)  # type: ignore[arg-type]

    async def sock_connect(sock: socket.socket, address: Any) -> None:
        """As on a network where one machine answers nothing."""
        if address[0] == SILENT:
            await asyncio.Event().wait()
        await QuickLoop.sock_connect(loop, sock, address)  # type: ignore[arg-type]

    loop.getaddrinfo = getaddrinfo  # type: ignore[method-assign]
    loop.sock_connect = sock_connect  # type: ignore[method-assign]
    async with asyncio.timeout(5):
        transport, _ = await loop.create_connection(
            asyncio.Protocol, NAME, port, happy_eyeballs_delay=DELAY_S
        )
    peer = str(transport.get_extra_info("peername")[0])
    transport.close()
    return peer


async def listening(port: int) -> asyncio.Server:
    return await asyncio.get_running_loop().create_server(asyncio.Protocol, "127.0.0.1", port)


def test_the_second_address_is_tried_when_the_first_is_silent() -> None:
    async def work() -> None:
        port = free_port()
        async with await listening(port):
            found = [info(SILENT, port), info("127.0.0.1", port)]
            assert await connect(found, port) == "127.0.0.1"

    run(work())


def test_a_refusal_does_not_wait_for_the_delay() -> None:
    async def work() -> None:
        port, nobody = free_port(), free_port()
        async with await listening(port):
            found = [info("127.0.0.1", nobody), info("127.0.0.1", port)]
            assert await connect(found, port) == "127.0.0.1"

    run(work())


def test_when_nobody_answers_the_first_failure_is_told() -> None:
    async def work() -> None:
        nobody = free_port()
        with pytest.raises(ConnectionRefusedError):
            await connect([info("127.0.0.1", nobody)] * 2, nobody)
        with pytest.raises(OSError, match="no address"):
            await connect([], nobody)

    run(work())


def test_who_gives_up_leaves_no_socket_open() -> None:
    async def work() -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2):
                await connect([info(SILENT, 25)] * 2, 25)

    run(work())  # an unclosed socket would be a warning, and a warning is an error here


def test_without_the_word_it_is_uvloops_own() -> None:
    async def work() -> None:
        port = free_port()
        async with await listening(port):
            loop = asyncio.get_running_loop()
            transport, _ = await loop.create_connection(asyncio.Protocol, "127.0.0.1", port)
            transport.close()

    run(work())


def test_families_take_turns() -> None:
    four, six = socket.AF_INET, socket.AF_INET6
    found = [info(str(n), 25, six) for n in range(3)] + [info("a", 25, four)]
    assert [address[4][0] for address in interleaved(found)] == ["0", "a", "1", "2"]
