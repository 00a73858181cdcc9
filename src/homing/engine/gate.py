"""Many at once, or one alone: what may crash its process takes nobody with it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class Gate:
    """Shared entry is free while nobody wants to be alone.

    One for a process: a crash takes down all of it, whatever the route.
    """

    def __init__(self) -> None:
        self.inside = 0
        self._wanting_alone = 0
        self._alone = asyncio.Lock()
        self._changed = asyncio.Event()

    @property
    def is_open(self) -> bool:
        return not self._wanting_alone

    async def opened(self) -> None:
        """Wait until nobody wants to be alone."""
        while self._wanting_alone:
            self._changed.clear()
            await self._changed.wait()

    def enter(self) -> None:
        """Once it is open; to be followed by `leave`."""
        self.inside += 1

    def leave(self) -> None:
        self.inside -= 1
        self._changed.set()

    @asynccontextmanager
    async def alone(self) -> AsyncIterator[None]:
        """Inside, nobody else is; whoever comes waits."""
        self._wanting_alone += 1
        try:
            async with self._alone:
                while self.inside:
                    self._changed.clear()
                    await self._changed.wait()
                yield
        finally:
            self._wanting_alone -= 1
            self._changed.set()
