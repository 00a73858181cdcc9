"""What one POST costs: CPU time of the whole, calls by part (`python -m benchmarks.profile_rest`).

64 keep-alive connections over uvicorn's own protocol, whose bytes go to and come from this
process: no sockets, no client and no worker are part of the figures. CPU time is that of a run
without a profiler; the shares are the profiler's, which makes small functions look dearer. The
store's thread counts only in "all threads".
"""

import asyncio
import cProfile
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import CodeType
from typing import Any, NamedTuple

from benchmarks.ours.rest import BODY, HEAD, HOST
from homing.runtime import long_running
from homing.runtime.app import Homing
from homing.settings import Settings
from homing.web.application import application
from homing.web.http.connection import Connection
from homing.web.serving import Server

CONNECTIONS = 64
WARM_UP = 640
POSTS = 6400
PORT = 8025
WAITING = "'poll'"
# The first part whose text is in a function's file name.
PARTS = (
    ("homing/web/http/strict_json", "parsing"),
    ("homing/web/http/bodies", "parsing"),
    ("homing/web/http/reading", "parsing"),
    ("homing/web/access/auth", "auth"),
    ("homing/web/http/answers", "answer"),
    ("homing/web", "routing and intake"),
    ("homing/content", "validation"),
    ("homing/runtime/mail_route", "validation"),
    ("homing/domain/message", "validation"),
    ("homing/stores", "add"),
    ("homing/domain/writes", "add"),
    ("homing/engine", "admission"),
    ("homing/domain", "admission"),
    ("homing/runtime/app", "admission"),
    ("benchmarks", "this program"),
    ("", "uvicorn and the event loop"),
)


class Cost(NamedTuple):
    """Of one POST."""

    all_threads_us: float
    event_loop_us: float


class Connected(asyncio.Transport):
    """The other end of a connection: asks again as soon as it is answered."""

    def __init__(self, answered: Callable[[bytes], None]) -> None:
        super().__init__()
        self._answered = answered

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return {"peername": (HOST, 1), "sockname": (HOST, PORT)}.get(name, default)

    def write(self, data: Any) -> None:
        self._answered(data)

    def is_closing(self) -> bool:
        return False

    def close(self) -> None: ...

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...


class Load:
    """So many POSTs over all connections."""

    def __init__(self, server: Server) -> None:
        self._loop = asyncio.get_running_loop()
        self._asked = 0
        self._left_to_ask = 0
        self._left_to_answer = 0
        self._done = self._loop.create_future()
        self._connections = [self._connect(server) for _ in range(CONNECTIONS)]

    def _connect(self, server: Server) -> Connection:
        connection = Connection(server.config, server.server_state, {})

        def answered(data: bytes) -> None:
            if not data.startswith(b"HTTP/1.1 202"):
                raise RuntimeError(data.decode())
            self._left_to_answer -= 1
            if self._left_to_answer == 0:
                self._done.set_result(None)
            self._loop.call_soon(self._ask, connection)

        connection.connection_made(Connected(answered))
        return connection

    def _ask(self, connection: Connection) -> None:
        if self._left_to_ask == 0:
            return
        self._left_to_ask -= 1
        self._asked += 1
        head = HEAD % (HOST.encode(), PORT, b"profile", self._asked, len(BODY))
        connection.data_received(head + BODY)

    async def post(self, number: int) -> None:
        self._left_to_ask = self._left_to_answer = number
        self._done = self._loop.create_future()
        for connection in self._connections:
            self._ask(connection)
        await self._done


async def run(profiler: cProfile.Profile | None) -> Cost:
    with tempfile.TemporaryDirectory(prefix="homing-profile-") as folder:
        store = f"sqlite:///{Path(folder) / 'homing.db'}"
        homing = Homing(store, provider="stub:", worker=False)
        app = application(homing, Settings(store=store))
        server = Server(app, shutdown_grace_s=1.0)
        server.config.load()
        async with app.router.lifespan_context(app):
            long_running.has_started()  # as the real server
            load = Load(server)
            await load.post(WARM_UP)
            process_s, thread_s = time.process_time(), time.thread_time()
            if profiler is not None:
                profiler.enable()
            await load.post(POSTS)
            if profiler is not None:
                profiler.disable()
            used_s = time.process_time() - process_s, time.thread_time() - thread_s
    return Cost(*(used / POSTS * 1e6 for used in used_s))


def by_part(profiler: cProfile.Profile) -> tuple[Counter[str], Counter[str]]:
    """Calls and microseconds; a C function is part of its caller. Waiting is left out."""
    calls: Counter[str] = Counter()
    used_us: Counter[str] = Counter()
    for entry in profiler.getstats():
        if not isinstance(entry.code, CodeType):
            continue
        part = _part(entry.code.co_filename)
        own = [inner for inner in entry.calls or () if isinstance(inner.code, str)]
        calls[part] += entry.callcount + sum(inner.callcount for inner in own)
        used_s = entry.inlinetime + sum(i.inlinetime for i in own if WAITING not in str(i.code))
        used_us[part] += round(used_s * 1e6)
    return calls, used_us


def _part(file: str) -> str:
    return next(part for text, part in PARTS if text in file)


def main() -> None:
    costs = [long_running.run(run(None)) for _ in range(3)]
    profiler = cProfile.Profile(time.thread_time)
    long_running.run(run(profiler))
    calls, used_us = by_part(profiler)
    everything, loop = (min(column) for column in zip(*costs, strict=True))
    print("| of one POST | share of the event loop's time | calls |")
    print("| --- | --- | --- |")
    for part, number in calls.most_common():
        share = used_us[part] / used_us.total()
        print(f"| {part} | {share:.0%} | {number / POSTS:.1f} |")
    print(f"| all | | {calls.total() / POSTS:.1f} |")
    print(f"\nCPU: {loop:.1f} µs in the event loop, {everything:.1f} µs in all threads")


if __name__ == "__main__":
    main()
