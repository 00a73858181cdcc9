"""A process: its store and clock, and the parts of its engine that every attempt needs."""

from __future__ import annotations

from homing.domain import identity
from homing.engine.commit.settlement import Settlement
from homing.engine.intake.intake_priority import IntakePriority
from homing.engine.process.counters import Counters
from homing.engine.process.journal_reader import JournalReader
from homing.engine.process.liveness import Liveness
from homing.engine.process.pausing import Pausing
from homing.engine.process.store_health import StoreHealth
from homing.engine.route import Route
from homing.ports import Clock, Random, Store


class Process:
    """Shared by the parts of one engine. `holder` names this process in the store."""

    def __init__(  # noqa: PLR0913 - the parts of a process
        self,
        store: Store,
        clock: Clock,
        rng: Random,
        *,
        saves: Settlement,
        health: StoreHealth,
        liveness: Liveness,
        pausing: Pausing,
        journal: JournalReader,
    ) -> None:
        self.store = store
        self.clock = clock
        self.rng = rng
        self.saves = saves
        self.health = health
        self.liveness = liveness
        self.pausing = pausing
        self.journal = journal
        self.holder = liveness.name
        self.counters = Counters(store, clock, self.holder)
        self.intake = IntakePriority(clock)
        self._next_id = 0

    async def refresh_if_stale(self) -> None:
        """Before work is claimed or marked: store the outcomes that this process has journaled,
        and know which processes are alive."""
        await self.journal.read_back_own()
        await self.liveness.refresh_if_stale()

    def new_id(self) -> str:
        return self.new_ids(1)[0]

    def new_ids(self, count: int) -> list[str]:
        """Ids that sort by time and, within this process, by order."""
        first = max(self.clock.now_ms() << identity.ORDER_BITS, self._next_id)
        self._next_id = first + count
        return identity.ids_from(first, self.rng.entropy(identity.ID_CHANCE_BYTES * count))

    def lease_until_ms(self, route: Route) -> int:
        """Leases are real time, also where the clock runs faster."""
        return self.clock.now_ms() + round(route.lease_s * 1000 * self.liveness.time_scale)
