"""Parked routes: a fault of the route stops the route, not its messages."""

from __future__ import annotations

from homing.domain.delivery import Fact, FactValue
from homing.domain.failure import Failure
from homing.engine.route import Route
from homing.ports import Clock, Store

PARKED = "parked"
ALERTED = "parked_alert"
BY_FAULT = "fault"


class Parking:
    """Knows which routes are parked; the truth is a fact in the store, shared by all processes."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._parked: dict[str, Fact] = {}
        self._alerted: set[str] = set()

    async def refresh(self) -> None:
        self._parked = {fact.key: fact for fact in await self._store.facts(PARKED)}
        self._alerted = {fact.key for fact in await self._store.facts(ALERTED)}

    def is_parked(self, route: str) -> bool:
        return route in self._parked

    def fact(self, route: str) -> Fact | None:
        return self._parked.get(route)

    def may_probe(self, route: str) -> bool:
        """A fault is probed now and then; what a person parked stays parked."""
        fact = self._parked.get(route)
        return fact is not None and (fact.value or {}).get("by") == BY_FAULT

    def by_fault(self, route: Route, failure: Failure) -> tuple[Fact, ...]:
        """The fact to write with the delivery that found the fault; empty if parked already."""
        if route.name in self._parked:
            return ()
        value: FactValue = {
            "by": BY_FAULT,
            "reason": failure.detail,
            "error_class": failure.error_class,
        }
        fact = Fact(PARKED, route.name, self._clock.now_ms(), value)
        self._parked[route.name] = fact
        return (fact,)

    async def park(self, route: str, *, actor: str, reason: str) -> None:
        value: FactValue = {"by": actor, "reason": reason, "error_class": None}
        fact = Fact(PARKED, route, self._clock.now_ms(), value)
        await self._store.save([], [fact])
        self._parked[route] = fact

    async def unpark(self, route: str) -> None:
        now_ms = self._clock.now_ms()
        gone = [Fact(PARKED, route, now_ms, None), Fact(ALERTED, route, now_ms, None)]
        await self._store.save([], gone)
        self._parked.pop(route, None)
        self._alerted.discard(route)

    def unalerted(self) -> list[Fact]:
        """Faults that nobody was told of yet; who parks a route by hand knows it."""
        return [
            f for f in self._parked.values() if self.may_probe(f.key) and f.key not in self._alerted
        ]

    async def mark_alerted(self, fact: Fact) -> None:
        # A fact of its own: others who meet the fault at the same time write theirs anew.
        await self._store.save([], [Fact(ALERTED, fact.key, self._clock.now_ms())])
        self._alerted.add(fact.key)
