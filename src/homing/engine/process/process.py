"""A process: its name, its store and clock, and what the parts of its engine share."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable

from homing.domain import identity
from homing.domain.delivery import Fact
from homing.domain.failure import Failure
from homing.engine.commit.group_commit import GroupCommit
from homing.engine.commit.settlement import Settlement
from homing.engine.intake.intake_priority import IntakePriority
from homing.engine.process.counters import Counters
from homing.engine.process.store_health import StoreHealth
from homing.engine.route import Route
from homing.engine.work.permits import ProcessPermits
from homing.ports import Clock, Provider, Random, Store


async def _nothing_to_do() -> None:
    """For processes without a journal, or without work."""


def _no_facts(route: Route, failure: Failure) -> tuple[Fact, ...]:
    del route, failure
    return ()


def _nothing_learnt(provider: Provider, answer: object) -> None:
    del provider, answer


class Process:
    """Shared by the parts of one engine. `holder` names this process in the store.

    `refresh_if_stale` runs before work is claimed: it makes sure that the liveness of this process
    and the others was checked recently. `read_back` stores the outcomes of the emergency journal.
    `on_route_fault` returns the facts to write with an outcome that met a fault of its route.
    `on_answer` receives a provider's answers to sends.
    `holds_back` returns whether a route is paused, for a probe or for any other message.
    """

    def __init__(  # noqa: PLR0913 - the parts of a process
        self,
        store: Store,
        commits: GroupCommit,
        clock: Clock,
        rng: Random,
        holder: str,
        saves: Settlement,
        *,
        health: StoreHealth,
        holds_back: Callable[[str, bool], bool],
        routes: Iterable[Route] = (),
        refresh_if_stale: Callable[[], Awaitable[None]] = _nothing_to_do,
        is_fresh: Callable[[], bool] = lambda: True,
        read_back: Callable[[], Awaitable[object]] = _nothing_to_do,
        on_route_fault: Callable[[Route, Failure], tuple[Fact, ...]] = _no_facts,
        on_answer: Callable[[Provider, object], None] = _nothing_learnt,
        time_scale: float = 1.0,
    ) -> None:
        self.store = store
        self.commits = commits
        self.clock = clock
        self.rng = rng
        self.holder = holder
        self.saves = saves
        self.refresh_if_stale = refresh_if_stale
        # Whether others still take this process for alive, and so leave it what it holds.
        self.is_fresh = is_fresh
        self.read_back = read_back
        self.on_route_fault = on_route_fault
        self.on_answer = on_answer
        self.holds_back = holds_back
        self.health = health
        # How many seconds of the clock pass in a real one; leases are real, due times are not.
        self.time_scale = time_scale
        self.counters = Counters(store, clock, holder)
        self.permits = ProcessPermits(routes)
        self.intake = IntakePriority(clock)
        self._next_id = 0

    def new_id(self) -> str:
        return self.new_ids(1)[0]

    def new_ids(self, count: int) -> list[str]:
        """Ids that sort by time and, within this process, by order."""
        first = max(self.clock.now_ms() << identity.ORDER_BITS, self._next_id)
        self._next_id = first + count
        return identity.ids_from(first, self.rng.entropy(identity.ID_CHANCE_BYTES * count))

    def lease_until_ms(self, route: Route) -> int:
        return self.clock.now_ms() + round(route.lease_s * 1000 * self.time_scale)
