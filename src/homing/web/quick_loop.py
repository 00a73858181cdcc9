"""uvloop's event loop, with the one word of asyncio's that it does not know.

`create_connection(happy_eyeballs_delay=…)` tries the next address when one does not answer soon.
Providers ask for it; uvloop refuses the argument and tries one address after the other.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import uvloop


class QuickLoop(uvloop.Loop):
    async def create_connection(
        self,
        protocol_factory: Callable[[], asyncio.BaseProtocol],
        host: str | None = None,
        port: int | None = None,
        *,
        happy_eyeballs_delay: float | None = None,
        **more: Any,
    ) -> tuple[Any, Any]:
        if happy_eyeballs_delay is None or host is None:
            return await super().create_connection(protocol_factory, host, port, **more)  # type: ignore[arg-type] # None is allowed beside `sock`
        found = await self.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        connected = await Race(self, found, happy_eyeballs_delay).run()
        try:
            if more.get("ssl"):
                more.setdefault("server_hostname", host)
            return await super().create_connection(protocol_factory, sock=connected, **more)
        except BaseException:
            connected.close()
            raise


class Race:
    """Connects to several addresses, each a little later than the one before; the first wins."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, found: Sequence[Any], delay_s: float
    ) -> None:
        self._loop = loop
        self._addresses = interleaved(found)
        self._delay_s = delay_s

    async def run(self) -> socket.socket:
        """The first connected socket; when none connects, the first failure."""
        running: set[asyncio.Task[socket.socket]] = set()
        failures: list[BaseException] = []
        waiting = list(self._addresses)
        try:
            while waiting or running:
                if waiting:
                    running.add(self._loop.create_task(self._connect(waiting.pop(0))))
                done, running = await asyncio.wait(
                    running,
                    timeout=self._delay_s if waiting else None,
                    return_when=asyncio.FIRST_COMPLETED,
                )
                winners = [task for task in done if task.exception() is None]
                for loser in winners[1:]:
                    loser.result().close()
                if winners:
                    return winners[0].result()
                failures += [error for task in done if (error := task.exception())]
        finally:
            for task in running:
                task.cancel()
            for late in await asyncio.gather(*running, return_exceptions=True):
                if isinstance(late, socket.socket):
                    late.close()
        raise failures[0] if failures else OSError("the name has no address")

    async def _connect(self, address: Any) -> socket.socket:
        family, kind, protocol, _, where = address
        connecting = socket.socket(family, kind, protocol)
        try:
            connecting.setblocking(False)  # noqa: FBT003 - the library's own
            await self._loop.sock_connect(connecting, where)
        except BaseException:
            with suppress(OSError):
                connecting.close()
            raise
        return connecting


def interleaved(found: Sequence[Any]) -> list[Any]:
    """The families in turn, beginning with the first that the resolver gave."""
    by_family: dict[int, list[Any]] = {}
    for address in found:
        by_family.setdefault(address[0], []).append(address)
    longest = max(map(len, by_family.values()), default=0)
    return [
        addresses[place]
        for place in range(longest)
        for addresses in by_family.values()
        if place < len(addresses)
    ]
