"""What a process is: its name, its store and clock, and what its parts share."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from homing.domain import identity
from homing.engine.intake_priority import IntakePriority
from homing.engine.permits import Permits
from homing.engine.route import Route
from homing.engine.save_batcher import SaveBatcher
from homing.ports import Clock, Dice, Store

# How many accepted sends may await their save: what one kill can send twice.
MAX_UNSAVED_SENDS = 64
_IDS_PER_MS = 4096


class Process:
    """Shared by the parts of one engine. `holder` names this process in the store.

    `refresh_if_stale` runs before work is taken: it makes sure that this process's view of
    itself and of the others is recent.
    """

    def __init__(  # noqa: PLR0913 - what the parts of a process share
        self,
        store: Store,
        clock: Clock,
        dice: Dice,
        holder: str,
        saves: SaveBatcher,
        *,
        refresh_if_stale: Callable[[], Awaitable[None]],
        is_fresh: Callable[[], bool] = lambda: True,
        time_scale: float = 1.0,
    ) -> None:
        self.store = store
        self.clock = clock
        self.dice = dice
        self.holder = holder
        self.saves = saves
        self.refresh_if_stale = refresh_if_stale
        # Whether others still take this process for alive, and so leave it what it holds.
        self.is_fresh = is_fresh
        # How many seconds of the clock pass in a real one; leases are real, due times are not.
        self.time_scale = time_scale
        self.unsaved_sends = Permits(MAX_UNSAVED_SENDS)
        self.intake = IntakePriority(clock)
        self._last_id_ms, self._ids_in_ms = 0, 0

    def new_id(self) -> str:
        """An id that sorts by time and, within a millisecond of this process, by order."""
        now_ms = self.clock.now_ms()
        self._ids_in_ms = (self._ids_in_ms + 1) % _IDS_PER_MS if now_ms == self._last_id_ms else 0
        self._last_id_ms = now_ms
        order = self._ids_in_ms.to_bytes(2, "big")
        return identity.id_from(now_ms, order + self.dice.entropy(8))

    def lease_until_ms(self, route: Route) -> int:
        return self.clock.now_ms() + round(route.lease_s * 1000 * self.time_scale)
