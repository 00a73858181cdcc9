"""Paused routes: if the connection itself is broken, the route pauses and its messages wait.

A fault's pause and a person's pause are two facts. A successful probe ends the first; only
a person ends the second.
"""

from __future__ import annotations

from collections.abc import Callable

from homing.domain.delivery import Fact, FactValue
from homing.domain.failure import RATE_LIMITED, Failure
from homing.engine.route import Route
from homing.ports import Clock, Store

PAUSED = "paused"
# Of one kind, so that one read gives both: a person's pause has this behind the route's name.
BY_PERSON = "/person"
ALERTED = "paused_alert"
BY_FAULT = "fault"
# Every process of the store knows of a pause, and of its end, after this time at the latest.
KNOWN_WITHIN_S = 1.0
# A rate limit pauses its route for a moment, again and again; that alone is no news.
RATE_LIMIT_ALERT_AFTER_S = 15 * 60


async def paused_routes(store: Store) -> dict[str, Fact]:
    """Each paused route with the fact to show: a person's, else the fault's."""
    faults, persons = await _read(store)
    return faults | persons


async def _read(store: Store) -> tuple[dict[str, Fact], dict[str, Fact]]:
    """The pauses of faults and those of persons, by route."""
    faults: dict[str, Fact] = {}
    persons: dict[str, Fact] = {}
    for fact in await store.facts(PAUSED):
        route = fact.key.removesuffix(BY_PERSON)
        (faults if route == fact.key else persons)[route] = fact
    return faults, persons


class Pausing:
    """Knows which routes are paused. The store has the facts, shared by all processes."""

    def __init__(
        self, store: Store, clock: Clock, *, on_end: Callable[[], None] = lambda: None
    ) -> None:
        """`on_end` is called when a pause ends in this process; for others, see `refresh`."""
        self._store = store
        self._clock = clock
        self._on_end = on_end
        self._by_fault: dict[str, Fact] = {}
        self._by_person: dict[str, Fact] = {}
        self._alerted: set[str] = set()
        self._changes = 0

    async def refresh(self) -> bool:
        """Read what other processes have written. Returns whether other routes are paused now."""
        changes, before = self._changes, self._paused
        faults, persons = await _read(self._store)
        alerted = {fact.key for fact in await self._store.facts(ALERTED)} if faults else set()
        if changes == self._changes:  # else what was read may be older than what we know
            self._by_fault, self._by_person, self._alerted = faults, persons, alerted
        return self._paused != before

    @property
    def _paused(self) -> frozenset[str]:
        return frozenset(self._by_fault.keys() | self._by_person.keys())

    def is_paused(self, route: str) -> bool:
        return route in self._by_fault or route in self._by_person

    def fact(self, route: str) -> Fact | None:
        return self._by_person.get(route) or self._by_fault.get(route)

    def may_probe(self, route: str) -> bool:
        """A route paused by a fault is probed from time to time; one paused by a person is not."""
        return route in self._by_fault and route not in self._by_person

    def holds_back(self, route: str, *, is_probe: bool) -> bool:
        """Whether a message of this route may not be sent now."""
        return route in self._by_person or (route in self._by_fault and not is_probe)

    def by_fault(self, route: Route, failure: Failure) -> tuple[Fact, ...]:
        """The fact to write with the delivery that met the fault; empty if it is known already."""
        if route.name in self._by_fault:
            return ()
        value: FactValue = {
            "by": BY_FAULT,
            "reason": failure.detail,
            "error_class": failure.error_class,
        }
        fact = Fact(PAUSED, route.name, self._clock.now_ms(), value)
        self._by_fault[route.name] = fact
        self._changes += 1
        return (fact,)

    async def pause(self, route: str, *, actor: str, reason: str) -> None:
        """By a person."""
        value: FactValue = {"by": actor, "reason": reason, "error_class": None}
        fact = Fact(PAUSED, route + BY_PERSON, self._clock.now_ms(), value)
        await self._store.save([], [fact])
        self._by_person[route] = fact
        self._changes += 1

    async def resume(self, route: str) -> None:
        """By a person; ends pauses by a fault, too."""
        await self._end(route, (PAUSED, route + BY_PERSON))
        self._by_person.pop(route, None)

    async def end_fault(self, route: str) -> None:
        """A probe succeeded; a person's pause stays."""
        await self._end(route)

    async def _end(self, route: str, *others: tuple[str, str]) -> None:
        ended = ((PAUSED, route), (ALERTED, route), *others)
        now_ms = self._clock.now_ms()
        await self._store.save([], [Fact(kind, key, now_ms, None) for kind, key in ended])
        self._by_fault.pop(route, None)
        self._alerted.discard(route)
        self._changes += 1
        self._on_end()

    def unalerted(self) -> list[Fact]:
        """Faults for which no alert was raised yet. A person's pause needs no alert."""
        faults = [fact for route, fact in self._by_fault.items() if route not in self._alerted]
        return [fact for fact in faults if not self._may_pass(fact)]

    def _may_pass(self, fact: Fact) -> bool:
        age_ms = self._clock.now_ms() - fact.at_ms
        limited = (fact.value or {}).get("error_class") == RATE_LIMITED
        return limited and age_ms < RATE_LIMIT_ALERT_AFTER_S * 1000

    async def mark_alerted(self, fact: Fact) -> None:
        # A separate fact: processes that meet the fault at the same time write the pause again.
        await self._store.save([], [Fact(ALERTED, fact.key, self._clock.now_ms())])
        self._alerted.add(fact.key)
        self._changes += 1
