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
        self._next_id = 0

    def new_id(self) -> str:
        return self.new_ids(1)[0]

    def new_ids(self, count: int) -> list[str]:
        """Ids that sort by time and, within this process, by order."""
        first = max(self.clock.now_ms() << identity.ORDER_BITS, self._next_id)
        self._next_id = first + count
        return identity.ids_from(first, self.dice.entropy(identity.ID_CHANCE_BYTES * count))

    def lease_until_ms(self, route: Route) -> int:
        return self.clock.now_ms() + round(route.lease_s * 1000 * self.time_scale)
