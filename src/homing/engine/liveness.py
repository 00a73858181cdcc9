"""Who is alive: leases do not trust the wall clock alone.

Each process beats by writing a fact with its boot's steady time. Processes of one boot compare
steady times, which no clock step can move; a process of another machine is dead when its beat
was not seen to change for the whole of our own patience.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from homing.domain.delivery import Fact, FactValue
from homing.ports import Clock, Store

WORKER = "worker"
# Wall and steady clock may drift apart by this much before it counts as a step.
CLOCK_STEP_S = 1.0
# A claim relies on a look that is not older than this.
LOOK_EVERY_S = 1.0


class Liveness:
    def __init__(
        self,
        store: Store,
        clock: Clock,
        name: str,
        *,
        patience_s: float,
        about: Mapping[str, str | int] | None = None,
        time_scale: float = 1.0,
    ) -> None:
        self._store = store
        self._clock = clock
        self._name = name
        self._about = dict(about or {})
        self._patience_s = patience_s
        self._time_scale = time_scale
        self._beats = 0
        self._last_beat_s: float | None = None
        self._looked_at_ms = clock.now_ms()
        self._looked_at_s = clock.steady_s()
        self.is_behind = False
        self._unseen_until_s = float("-inf")
        self._making_sure = asyncio.Lock()
        self._seen: dict[str, tuple[int, float]] = {}
        self.alive: frozenset[str] = frozenset()
        self.dead: frozenset[str] = frozenset()

    @property
    def beat_every_s(self) -> float:
        return self._patience_s / 6

    @property
    def is_fresh(self) -> bool:
        """Whether others, by our last beat, must hold us for alive for a good while yet."""
        return self._is_fresh(self._clock.steady_s())

    def _is_fresh(self, now_s: float) -> bool:
        if self._last_beat_s is None:
            return True  # a process that never beats is not judged by its beats
        return now_s < self._last_beat_s + self._patience_s / 2

    @property
    def is_sure(self) -> bool:
        """Whether work may be taken without asking first."""
        now_s = self._clock.steady_s()
        looked = self._looked_at_s <= now_s <= self._looked_at_s + LOOK_EVERY_S
        return (
            looked
            and now_s >= self._unseen_until_s
            and self._is_fresh(now_s)
            and not self._clock_stepped(now_s)
        )

    async def refresh_if_stale(self) -> None:
        """Before taking work: a thawed process beats first, and after a clock step looks again."""
        if self.is_sure:
            return
        async with self._making_sure:
            if not self.is_fresh:
                await self.beat()
            if self._clock_stepped(self._clock.steady_s()):
                self._unseen_until_s = self._clock.steady_s() + LOOK_EVERY_S
            await self.look()
        await self.be_seen()

    async def be_seen(self) -> None:
        """By a clock behind others', what we claim looks ended to them until they have seen us."""
        rest_s = self._unseen_until_s - self._clock.steady_s()
        if rest_s > 0 and self.is_behind:
            await asyncio.sleep(rest_s)

    async def first_beat(self) -> None:
        """At the start: be there, see who else is, and be seen by them."""
        await self.beat()
        await self.look()
        await self.be_seen()

    def _clock_stepped(self, now_s: float) -> bool:
        passed_s = (self._clock.now_ms() - self._looked_at_ms) / 1000 / self._time_scale
        return abs(passed_s - (now_s - self._looked_at_s)) > CLOCK_STEP_S

    async def beat(self) -> None:
        beaten_at_s = self._clock.steady_s()
        if self._last_beat_s is None or not self.is_fresh:
            # New, or back from a long pause: the others' last look does not know us.
            self._unseen_until_s = beaten_at_s + LOOK_EVERY_S
        self._beats += 1
        value: FactValue = {
            **self._about,
            "beats": self._beats,
            "boot": self._clock.boot,
            "steady_s": beaten_at_s,
        }
        await self._store.save([], [Fact(WORKER, self._name, self._clock.now_ms(), value)])
        self._last_beat_s = beaten_at_s

    async def look(self) -> None:
        """Read the others' beats and judge."""
        self._looked_at_ms = self._clock.now_ms()
        self._looked_at_s = self._clock.steady_s()
        newest_ms = self._looked_at_ms
        alive: set[str] = set()
        dead: set[str] = set()
        facts = await self._store.facts(WORKER)
        now_s = self._clock.steady_s()  # after the read: we may have been frozen in between
        for fact in facts:
            if fact.key != self._name:
                newest_ms = max(newest_ms, fact.at_ms)
                (alive if self._is_alive(fact, now_s) else dead).add(fact.key)
        self.alive, self.dead = frozenset(alive), frozenset(dead)
        self.is_behind = newest_ms > self._looked_at_ms + CLOCK_STEP_S * 1000 * self._time_scale

    def _is_alive(self, fact: Fact, now_s: float) -> bool:
        value = fact.value or {}
        beats = int(value.get("beats") or 0)
        if value.get("boot") == self._clock.boot:
            return now_s < float(value.get("steady_s") or 0.0) + self._patience_s
        known, since_s = self._seen.get(fact.key, (-1, now_s))
        if beats != known:
            since_s = now_s
            self._seen[fact.key] = (beats, now_s)
        return now_s < since_s + self._patience_s

    async def farewell(self) -> None:
        """A graceful end leaves nothing for others to wait for."""
        await self._store.save([], [Fact(WORKER, self._name, self._clock.now_ms(), None)])

    async def forget(self, name: str) -> None:
        self._seen.pop(name, None)
        await self._store.save([], [Fact(WORKER, name, self._clock.now_ms(), None)])
