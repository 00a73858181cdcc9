"""How Homing's own programs run: on the fastest event loop, with few pauses."""

from __future__ import annotations

import asyncio
import gc
import sys
from collections.abc import Coroutine
from typing import Any, TypeVar

try:
    from uvloop import Loop
except ImportError:  # asyncio's own loop does the same with more work
    Loop = None  # type: ignore[assignment, misc]

T = TypeVar("T")
GC_THRESHOLDS = (20_000, 20, 50)
# How long a thread of the store waits for the interpreter while the event loop is busy. It needs it
# after each statement, and the write lock of the file is held meanwhile. Python's default is 5 ms.
SWITCH_INTERVAL_S = 0.0001


def run(main: Coroutine[Any, Any, T]) -> T:
    with asyncio.Runner(loop_factory=Loop) as runner:
        return runner.run(main)


def has_started() -> None:
    """Exclude what is loaded now from garbage collection: it stays, and scanning it takes time.
    From now on threads take turns quickly."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)
    sys.setswitchinterval(SWITCH_INTERVAL_S)
