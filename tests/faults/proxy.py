"""A TCP proxy on loopback whose connections can be cut, or left open and mute."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

from tests.servers import HOST

CHUNK_BYTES = 65_536


class Proxy:
    """`mute` swallows what comes from either side; `cut` ends every connection at once."""

    def __init__(self, to_port: int) -> None:
        self._to_port = to_port
        self._writers: set[asyncio.StreamWriter] = set()
        self._server: asyncio.Server | None = None
        self.is_mute = False
        self._swallowed = b""
        self._came = asyncio.Event()
        self.has_cut = False
        self._fatal: bytes | None = None

    @property
    def port(self) -> int:
        assert self._server is not None
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    def cut_before_answer(self, text: bytes = b"") -> None:
        """Swallow the server's next answer that has this in it, and cut."""
        self.has_cut, self._fatal = False, text

    async def until_swallowed(self, text: bytes) -> None:
        while text not in self._swallowed:
            self._came.clear()
            await self._came.wait()

    def cut(self) -> None:
        self.has_cut = True
        for writer in self._writers:
            writer.transport.abort()
        self._writers.clear()

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._serve, HOST, 0)

    async def stop(self) -> None:
        assert self._server is not None
        self._server.close()
        self.cut()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            there, back = await asyncio.open_connection(HOST, self._to_port)
        except OSError:
            writer.transport.abort()
            return
        self._writers |= {writer, back}
        await asyncio.gather(self._pump(reader, back), self._pump(there, writer, is_answer=True))

    async def _pump(
        self,
        source: asyncio.StreamReader,
        target: asyncio.StreamWriter,
        *,
        is_answer: bool = False,
    ) -> None:
        with contextlib.suppress(OSError):
            while data := await source.read(CHUNK_BYTES):
                if self.is_mute:
                    self._swallowed += data
                    self._came.set()
                    continue
                if is_answer and self._fatal is not None and self._fatal in data:
                    self._fatal = None
                    self.cut()
                    return
                target.write(data)
                await target.drain()
        if not self.is_mute:
            target.close()


@contextlib.asynccontextmanager
async def proxy_to(port: int) -> AsyncIterator[Proxy]:
    proxy = Proxy(port)
    await proxy.start()
    try:
        yield proxy
    finally:
        await proxy.stop()
