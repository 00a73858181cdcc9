"""Which processes are alive: a death is proved on the same host, concluded from silence elsewhere.

Each process beats: it writes a heartbeat, a fact with its boot's steady time. Processes of one boot
compare steady times, which no clock step can change; a process of another machine is silent if its
heartbeat has not changed for some time by our own clock. Where the host itself shows which
processes run (`Presence`), a dead one is known at once, and a running one gets more time to beat.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping

from homing.domain.delivery import Fact, FactValue
from homing.ports import Clock, Presence, Store

WORKER = "worker"
# A process that was silent for this long, and is not known to run, is dead.
PATIENCE_S = 20.0
BEATS_PER_PATIENCE = 4
# By the wall clock, which may differ between machines.
OLD_BEAT_S = 60.0
# A larger difference between wall and steady clock counts as a clock step.
CLOCK_STEP_S = 1.0
# Every process looks this often; a claim relies on a look that is not much older.
LOOK_EVERY_S = 1.0
LOOK_LASTS_S = 1.5

# Facts by queue: when a worker of a timer was last there.
TIMED_RUN = "timed_run"
# A timer runs once a minute. After three minutes without a run, its queues are not served.
TIMED_RUN_LASTS_S = 180.0


class Liveness:
    """`runs_patience_s`: how long a running process (stopped, or too busy to beat) keeps its work;
    by then its leases have ended."""

    def __init__(  # noqa: PLR0913 - two patiences and what a beat tells
        self,
        store: Store,
        clock: Clock,
        name: str,
        *,
        patience_s: float = PATIENCE_S,
        runs_patience_s: float | None = None,
        presence: Presence | None = None,
        about: Mapping[str, str | int] | None = None,
        has_alarm: bool = False,
        time_scale: float = 1.0,
    ) -> None:
        self._store = store
        self._clock = clock
        self.name = name
        self._presence = presence
        self._about = {**(about or {}), "alarm": int(has_alarm)}
        self._patience_s = patience_s
        self._runs_patience_s = max(patience_s, runs_patience_s or 0.0)
        self.time_scale = time_scale
        # The queues that this process serves; its beats name them.
        self.queues: tuple[str, ...] = ()
        # By route, what is wrong with its provider here, as the beats tell.
        self.problems: Mapping[str, str] = {}
        # The same of the other processes that are alive.
        self.problems_elsewhere: Mapping[str, str] = {}
        self._beats = 0
        self._last_beat_s: float | None = None
        self._looked_at_ms = clock.now_ms()
        self._looked_at_s = clock.steady_s()
        self.is_behind = False
        self._unseen_until_s = float("-inf")
        self._judging_since_s = float("-inf")
        self._refreshing = asyncio.Lock()
        self._seen: dict[str, tuple[int, float]] = {}
        self._seen_to_beat: set[str] = set()
        self.alive: frozenset[str] = frozenset()
        # The living that beat: a stopped or blocked process keeps its work and serves none.
        self.beating: frozenset[str] = frozenset()
        self.dead: frozenset[str] = frozenset()
        # Dead processes that certainly cannot come back.
        self.proved_dead: frozenset[str] = frozenset()
        self._with_alarm: frozenset[str] = frozenset()
        # The queues of each beating process that runs workers, as far as is known without waiting.
        self.workers: Mapping[str, frozenset[str]] = {}

    @property
    def beat_every_s(self) -> float:
        return self._patience_s / BEATS_PER_PATIENCE

    @property
    def has_beaten(self) -> bool:
        return self._last_beat_s is not None

    @property
    def next_beat_in_s(self) -> float:
        if self._last_beat_s is None:
            return 0.0
        return max(self._last_beat_s + self.beat_every_s - self._clock.steady_s(), 0.0)

    @property
    def is_fresh(self) -> bool:
        """Whether our last heartbeat makes others consider this process alive for some time."""
        return self._is_fresh(self._clock.steady_s())

    def was_fresh_since(self, since_s: float) -> bool:
        """Whether others have taken this process for alive from then on.

        A heartbeat after a pause makes it fresh again, but not what it held before the pause.
        """
        return self.is_fresh and self._judging_since_s <= since_s

    def _is_fresh(self, now_s: float) -> bool:
        if self._last_beat_s is None:
            return True  # a process that never beats is not judged by its beats
        return now_s < self._last_beat_s + self._patience_s / 2

    @property
    def is_sure(self) -> bool:
        """Whether work may be claimed without a refresh first."""
        now_s = self._clock.steady_s()
        looked = self._looked_at_s <= now_s <= self._looked_at_s + LOOK_LASTS_S
        return (
            looked
            and (now_s >= self._unseen_until_s or not self.is_behind)
            and self._is_fresh(now_s)
            and not self._clock_stepped(now_s)
        )

    async def refresh_if_stale(self) -> None:
        """Before claiming: after a pause beat first; after a clock step read heartbeats again."""
        if self.is_sure:
            return
        async with self._refreshing:
            if not self.is_fresh:
                await self.beat()
            if self._clock_stepped(self._clock.steady_s()):
                self._unseen_until_s = self._clock.steady_s() + LOOK_LASTS_S
            await self.look()
        await self.be_seen()

    async def be_seen(self) -> None:
        """If our clock is behind, others consider our leases ended until they see our heartbeat."""
        rest_s = self._unseen_until_s - self._clock.steady_s()
        if rest_s > 0 and self.is_behind:
            await asyncio.sleep(rest_s)

    async def first_beat(self) -> None:
        """At the start: beat, read the heartbeats of others, and wait until they have seen ours."""
        await self.beat()
        await self.look()
        await self.be_seen()

    def _clock_stepped(self, now_s: float) -> bool:
        passed_s = (self._clock.now_ms() - self._looked_at_ms) / 1000 / self.time_scale
        return abs(passed_s - (now_s - self._looked_at_s)) > CLOCK_STEP_S

    async def beat(self) -> None:
        if self._presence is not None:
            self._presence.announce(self.name, self._clock.boot)
        beaten_at_s = self._clock.steady_s()
        if self._last_beat_s is None or not self.is_fresh:
            # New, or back from a long pause: the others' last look does not know us.
            self._unseen_until_s = beaten_at_s + LOOK_LASTS_S
        if not self.is_fresh:
            # What kept us from beating (a stopped machine, a store that took no writes) may have
            # stopped the others too: their silence counts from now on.
            self._judging_since_s = beaten_at_s
        self._beats += 1
        value: FactValue = {
            **self._about,
            "queues": "\n".join(self.queues),
            "problems": "\n".join(f"{route}\t{text}" for route, text in self.problems.items()),
            "beats": self._beats,
            "boot": self._clock.boot,
            "steady_s": beaten_at_s,
        }
        await self._store.save([], [Fact(WORKER, self.name, self._clock.now_ms(), value)])
        self._last_beat_s = beaten_at_s

    async def look(self) -> None:
        """Read the others' heartbeats, check which processes run, and judge who is alive."""
        if not self.is_fresh:
            await self.beat()
        self._looked_at_ms = self._clock.now_ms()
        self._looked_at_s = self._clock.steady_s()
        facts = [fact for fact in await self._store.facts(WORKER) if fact.key != self.name]
        now_s = (
            self._clock.steady_s()
        )  # after the read: this process may have been paused in between
        runs = {} if self._presence is None else self._presence.look(self._clock.boot)
        living = [fact for fact in facts if self._is_alive(fact, now_s, runs=runs.get(fact.key))]
        self.alive = frozenset(fact.key for fact in living)
        beating = [fact for fact in living if self._is_alive(fact, now_s, runs=None)]
        self.beating = frozenset(fact.key for fact in beating)
        self.workers = {
            fact.key: queues
            for fact in beating
            if self._is_recent(fact) and (queues := _queues_of(fact))
        }
        self.problems_elsewhere = {
            route: text
            for fact in living
            if fact.key in self.workers
            for route, text in _problems_of(fact).items()
        }
        self._with_alarm = frozenset(
            fact.key for fact in beating if (fact.value or {}).get("alarm")
        )
        self.proved_dead = frozenset(name for name, still in runs.items() if not still)
        silent = frozenset(fact.key for fact in facts) - self.alive
        self.dead = silent | self.proved_dead - {self.name}
        newest_ms = max((fact.at_ms for fact in facts), default=0)
        self.is_behind = newest_ms > self._looked_at_ms + CLOCK_STEP_S * 1000 * self.time_scale

    async def look_if_fresh(self) -> None:
        """For answers to people. One whose own beats fail would have to beat before it judges:
        while the store refuses writes, its last judgement stands, and nobody waits for a write."""
        if self.is_fresh:
            await self.look()

    def _is_alive(self, fact: Fact, now_s: float, *, runs: bool | None) -> bool:
        """`runs`: whether the host shows that it runs; None: unknown."""
        if runs is False:
            return False
        patience_s = self._patience_s if runs is None else self._runs_patience_s
        return now_s < max(self._last_heard_s(fact, now_s), self._judging_since_s) + patience_s

    def _last_heard_s(self, fact: Fact, now_s: float) -> float:
        value = fact.value or {}
        if value.get("boot") == self._clock.boot:
            return float(value.get("steady_s") or 0.0)
        beats = int(value.get("beats") or 0)
        known, since_s = self._seen.get(fact.key, (-1, now_s))
        if beats != known:
            if known >= 0:
                self._seen_to_beat.add(fact.key)
            since_s = now_s
            self._seen[fact.key] = (beats, now_s)
        return since_s

    def _is_recent(self, fact: Fact) -> bool:
        """A process of another machine, seen for the first time, gets the whole patience. That is
        right for its work, but a program that checks only once would always report it as alive."""
        if (fact.value or {}).get("boot") == self._clock.boot or fact.key in self._seen_to_beat:
            return True
        age_s = (self._looked_at_ms - fact.at_ms) / 1000 / self.time_scale
        return age_s < OLD_BEAT_S

    def is_served(self, queue: str) -> bool:
        """Whether a process with a heartbeat, including this one, serves the queue."""
        return queue in self.queues or any(queue in queues for queues in self.workers.values())

    async def queues_of_timers(self) -> set[str]:
        """Served by workers that a timer starts."""
        return await queues_of_timed_runs(self._store, self._clock, self.time_scale)

    @property
    def is_first_with_alarm(self) -> bool:
        """Whether this process, if it has an alarm, raises the alerts that are one per store."""
        if not self.has_beaten:
            return not self._with_alarm  # the others cannot see this one
        return self.name <= min(self._with_alarm, default=self.name)

    async def withdraw(self) -> None:
        """A graceful end: this process holds no work."""
        await self._store.save([], [Fact(WORKER, self.name, self._clock.now_ms(), None)])
        if self._presence is not None:
            self._presence.withdraw(self.name)

    def abandon(self) -> None:
        """An end while work is still held: others take it over."""
        if self._presence is not None:
            self._presence.abandon(self.name)

    async def forget(self, name: str) -> None:
        """It is dead, and holds nothing any more."""
        self._seen.pop(name, None)
        self._seen_to_beat.discard(name)
        await self._store.save([], [Fact(WORKER, name, self._clock.now_ms(), None)])
        if self._presence is not None:
            self._presence.forget(name)


def _queues_of(fact: Fact) -> frozenset[str]:
    return frozenset(str((fact.value or {}).get("queues") or "").split("\n")) - {""}


def _problems_of(fact: Fact) -> dict[str, str]:
    lines = str((fact.value or {}).get("problems") or "").splitlines()
    return dict(line.split("\t", 1) for line in lines if "\t" in line)


async def note_timed_run(store: Store, clock: Clock, queues: Iterable[str]) -> None:
    """For a worker that a timer starts: it ends when nothing is due, and has no heartbeat."""
    now_ms = clock.now_ms()
    await store.save([], [Fact(TIMED_RUN, queue, now_ms) for queue in queues])


async def queues_of_timed_runs(store: Store, clock: Clock, time_scale: float = 1.0) -> set[str]:
    """The queues that a timer serves, by its last runs."""
    since_ms = clock.now_ms() - TIMED_RUN_LASTS_S * 1000 * time_scale
    return {fact.key for fact in await store.facts(TIMED_RUN) if fact.at_ms >= since_ms}
