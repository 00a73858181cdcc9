"""Workers that a timer starts: they attempt what is due and end, so they have no heartbeat."""

from __future__ import annotations

from collections.abc import Iterable

from homing.domain.delivery import Fact
from homing.ports import Clock, Store

# Facts by queue: when a worker of a timer was last there.
TIMED_RUN = "timed_run"
# A timer runs once a minute. After three minutes without a run, its queues are not served.
LASTS_S = 180.0


async def note_timed_run(store: Store, clock: Clock, queues: Iterable[str]) -> None:
    now_ms = clock.now_ms()
    await store.save([], [Fact(TIMED_RUN, queue, now_ms) for queue in queues])


async def queues_of_timed_runs(store: Store, clock: Clock, time_scale: float = 1.0) -> set[str]:
    """The queues that a timer serves, by its last runs."""
    since_ms = clock.now_ms() - LASTS_S * 1000 * time_scale
    return {fact.key for fact in await store.facts(TIMED_RUN) if fact.at_ms >= since_ms}
