"""Workers that a timer starts: they attempt what is due and end, so they have no heartbeat."""

from __future__ import annotations

from collections.abc import Iterable

from homing.domain.delivery import Fact
from homing.ports import Clock, Store

# Facts by lane: when a worker of a timer was last there.
TIMED_RUN = "timed_run"
# A timer runs once a minute. After three minutes without a run, its lanes are not served.
LASTS_S = 180.0


async def note_timed_run(store: Store, clock: Clock, lanes: Iterable[str]) -> None:
    now_ms = clock.now_ms()
    await store.save([], [Fact(TIMED_RUN, lane, now_ms) for lane in lanes])


async def lanes_of_timed_runs(store: Store, clock: Clock, time_scale: float = 1.0) -> set[str]:
    """The lanes that a timer serves, by its last runs."""
    since_ms = clock.now_ms() - LASTS_S * 1000 * time_scale
    return {fact.key for fact in await store.facts(TIMED_RUN) if fact.at_ms >= since_ms}
