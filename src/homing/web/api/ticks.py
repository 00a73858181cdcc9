"""When to look again: one short event for each page that is open, never more than a second's worth.

A page that shows thousands of deliveries a second needs none of them: it is told that something
has changed, and reads itself again. The more pages are open, the less often each is told.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import Sequence

from homing.domain.errors import Overloaded
from homing.ports import Transitioned

MAX_VIEWERS = 400
TICK_EVERY_S = 1.0
# How many pages may be read again in a second because of ticks, all viewers together.
READS_PER_S = 20
# Other processes change deliveries too, and do not tell this one.
AT_LEAST_EVERY_S = 5.0
TICK = b"event: tick\ndata: {}\n\n"


class Ticks:
    """Counts changes; each viewer compares the count with what it has seen."""

    def __init__(self) -> None:
        self._viewers: set[Viewer] = set()
        self._changes = 0
        self._ended = False
        self._watched: Counter[str] = Counter()
        self._changes_of: dict[str, int] = {}

    def observe(self, events: Sequence[Transitioned]) -> None:
        if not self._viewers:
            return
        self._changes += 1
        if self._changes_of:
            for event in events:
                if event.delivery.id in self._changes_of:
                    self._changes_of[event.delivery.id] += 1

    def changes(self, delivery_id: str | None) -> int:
        return self._changes if delivery_id is None else self._changes_of.get(delivery_id, 0)

    @property
    def every_s(self) -> float:
        return max(TICK_EVERY_S, len(self._viewers) / READS_PER_S)

    @property
    def viewers(self) -> int:
        return len(self._viewers)

    def viewer(self, delivery_id: str | None) -> Viewer:
        if len(self._viewers) >= MAX_VIEWERS or self._ended:
            raise Overloaded("too many pages are open")
        return Viewer(self, delivery_id)

    def add(self, viewer: Viewer) -> None:
        self._viewers.add(viewer)
        if viewer.delivery_id is not None:
            self._watched[viewer.delivery_id] += 1
            self._changes_of.setdefault(viewer.delivery_id, 0)

    def discard(self, viewer: Viewer) -> None:
        self._viewers.discard(viewer)
        delivery_id = viewer.delivery_id
        if delivery_id is not None:
            self._watched[delivery_id] -= 1
            if not self._watched[delivery_id]:
                del self._watched[delivery_id]
                del self._changes_of[delivery_id]

    def begin(self) -> None:
        self._ended = False

    def end(self) -> None:
        """The server stops."""
        self._ended = True
        for viewer in self._viewers:
            viewer.end()


class Viewer:
    """An open page: of all deliveries, or of one."""

    def __init__(self, ticks: Ticks, delivery_id: str | None) -> None:
        self._ticks = ticks
        self.delivery_id = delivery_id
        self._over = asyncio.Event()
        self._seen = ticks.changes(delivery_id)

    @property
    def ended(self) -> bool:
        return self._over.is_set()

    def end(self) -> None:
        self._over.set()

    async def lines(self) -> bytes:
        """A tick, once there is something to see."""
        waited_s = 0.0
        while not self.ended:
            pause_s = self._ticks.every_s
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause_s):
                    await self._over.wait()
            waited_s += pause_s
            changes = self._ticks.changes(self.delivery_id)
            if changes != self._seen or waited_s >= AT_LEAST_EVERY_S:
                self._seen = changes
                break
        return TICK
