"""How Homing's own programs run: on the fastest event loop, with few pauses."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Coroutine
from typing import Any, TypeVar

try:
    from uvloop import Loop
except ImportError:  # asyncio's own loop does the same with more work
    Loop = None  # type: ignore[assignment, misc]

T = TypeVar("T")
GC_THRESHOLDS = (20_000, 20, 50)


def run(main: Coroutine[Any, Any, T]) -> T:
    with asyncio.Runner(loop_factory=Loop) as runner:
        return runner.run(main)


def has_started() -> None:
    """Exclude what is loaded now from garbage collection: it stays, and scanning it takes time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)
