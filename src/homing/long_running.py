"""How Homing's own programs run: the quickest event loop there is, and few pauses."""

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
    """What was loaded stays: looking through it again and again would only cost pauses."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)
