"""Several workers under one parent: one that dies is started again, all stop together."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Sequence
from typing import Any

# A worker that dies at once is not started again at once.
FIRST_REST_S = 0.5
LONGEST_REST_S = 30.0
LIVED_WELL_S = 10.0
# Beyond the grace that a worker gives its own attempts.
STOP_MARGIN_S = 10.0


async def supervise(command: Sequence[str], processes: int, *, grace_s: float) -> int:
    """Run this many until SIGTERM or SIGINT; the exit code is 0 if all of them ended well."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    codes = await asyncio.gather(
        *(_keep_one(command, stop, grace_s + STOP_MARGIN_S) for _ in range(processes))
    )
    return 0 if not any(codes) else 1


async def _keep_one(command: Sequence[str], stop: asyncio.Event, patience_s: float) -> int:
    rest_s = FIRST_REST_S
    loop = asyncio.get_running_loop()
    while True:
        started_s = loop.time()
        # The pipe is never written to: its end tells the child that its parent is gone.
        child = await asyncio.create_subprocess_exec(*command, stdin=asyncio.subprocess.PIPE)
        _say(f"worker process {child.pid} started")
        ended = asyncio.ensure_future(child.wait())
        if not await _first(ended, stop):
            return await _end(child, patience_s)
        rest_s = FIRST_REST_S if loop.time() - started_s > LIVED_WELL_S else rest_s
        _say(f"worker process {child.pid} ended with {child.returncode}; starting another")
        if await _stopped_within(stop, rest_s):
            return 0
        rest_s = min(rest_s * 2, LONGEST_REST_S)


async def _first(ended: asyncio.Future[int], stop: asyncio.Event) -> bool:
    """Whether the child ended by itself before it was told to stop."""
    stopped: asyncio.Future[bool] = asyncio.ensure_future(stop.wait())
    both: set[asyncio.Future[Any]] = {ended, stopped}
    await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
    stopped.cancel()
    return not stop.is_set()


async def _stopped_within(stop: asyncio.Event, rest_s: float) -> bool:
    try:
        async with asyncio.timeout(rest_s):
            return await stop.wait()
    except TimeoutError:
        return False


async def _end(child: asyncio.subprocess.Process, patience_s: float) -> int:
    if child.returncode is None:
        child.terminate()
        try:
            async with asyncio.timeout(patience_s):
                await child.wait()
        except TimeoutError:
            child.kill()
    code = await child.wait()
    # The signal ended it before it had installed its handler: it held nothing.
    return 0 if code == -signal.SIGTERM else code


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


class Orphaned(asyncio.Protocol):
    """On a child's stdin: sets the event when the parent is gone."""

    def __init__(self, gone: asyncio.Event) -> None:
        self._gone = gone

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        self._gone.set()
