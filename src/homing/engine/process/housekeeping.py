"""Housekeeping: leases of dead processes, claims that no task knows, retention."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence

from homing.domain import transitions
from homing.domain.delivery import Change, Delivery
from homing.engine.expiry import purge_rules
from homing.engine.process import counters
from homing.engine.process.liveness import WORKER, Liveness
from homing.engine.route import Route
from homing.ports import Clock, Facet, PurgeRule, Query, Store

log = logging.getLogger("homing.engine")

PAGE = 200
# Small facts that lose their use with time; audits are kept.
FACTS_KEPT_S = {
    "late_outcome": 30 * 86_400.0,
    "mismatch": 90 * 86_400.0,
    "store_restored": 30 * 86_400.0,
    "store_quarantined": 30 * 86_400.0,
    "bulk_actions": 30 * 86_400.0,
    "bulk_stop": 30 * 86_400.0,
    "former_recipient": 30 * 86_400.0,
    "session": 31 * 86_400.0,
    "came_back": 30 * 86_400.0,
    **counters.KEPT_S,
}
# A process that was only silent may come back until then.
FORGET_SILENT_AFTER_S = 3600.0


class Housekeeping:
    def __init__(
        self,
        store: Store,
        clock: Clock,
        routes: Mapping[str, Route],
        liveness: Liveness,
    ) -> None:
        self._store = store
        self._clock = clock
        self._routes = routes
        self._liveness = liveness
        self._unknown: dict[str, int] = {}
        self._settled: frozenset[str] = frozenset()

    async def look_around(self) -> None:
        """Every second: check which processes are alive, and end the leases of dead ones."""
        await self._liveness.look()
        if self._liveness.has_beaten:
            # A process without heartbeats cannot tell the silence of others from its own pause.
            await self.end_leases_of_the_dead()

    async def end_leases_of_the_dead(self) -> int:
        """Make the work of dead processes due now, whatever the ends of its leases."""
        ended = 0
        liveness = self._liveness
        # A silent process that holds nothing claims nothing before its next heartbeat.
        self._settled &= liveness.dead - liveness.proved_dead
        for holder in sorted(liveness.dead - self._settled):
            held = await self._held_by(holder)
            if held:
                ended += await self._end_leases(holder, held)
            elif holder in liveness.proved_dead:
                await liveness.forget(holder)
            else:
                self._settled |= {holder}
        return ended

    async def _end_leases(self, holder: str, held: Sequence[Delivery]) -> int:
        # The judgement may be old: this process may have been paused since.
        await self._liveness.look()
        if holder not in self._liveness.dead:
            return 0
        now_ms = self._clock.now_ms()
        ended = await self._save([transitions.end_lease(each, now_ms=now_ms) for each in held])
        log.warning("leases_of_dead_ended holder=%s deliveries=%d", holder, ended)
        return ended

    async def forget_silent(self) -> None:
        """Remove the heartbeats of processes that ended long ago on other hosts."""
        before_ms = self._clock.now_ms() - FORGET_SILENT_AFTER_S * 1000
        for fact in await self._store.facts(WORKER):
            if fact.key in self._settled and fact.at_ms < before_ms:
                await self._liveness.forget(fact.key)

    async def give_back_unknown(self, holder: str, held_ids: Callable[[], frozenset[str]]) -> int:
        """Release claims whose answer was lost: the store names this process, but no task has them.

        A claim is released if it is seen twice in a row, unchanged: no other process would take it.
        """
        stored = await self._held_by(holder)
        held = held_ids()  # after the read: what was added meanwhile is known
        unknown = [delivery for delivery in stored if delivery.id not in held]
        now_ms = self._clock.now_ms()
        changes = [
            transitions.end_lease(delivery, now_ms=now_ms)
            for delivery in unknown
            if self._unknown.get(delivery.id) == delivery.version
        ]
        self._unknown = {delivery.id: delivery.version for delivery in unknown}
        return await self._save(changes)

    async def holds_any(self, holder: str) -> bool:
        return bool((await self._store.page(_in_flight_of(holder), limit=1)).items)

    async def _held_by(self, holder: str) -> list[Delivery]:
        """All deliveries in flight that it holds, oldest first."""
        page = await self._store.page(_in_flight_of(holder), limit=PAGE)
        held = list(page.items)
        while page.next is not None:
            page = await self._store.page(_in_flight_of(holder), page.next, limit=PAGE)
            held += page.items
        return held[::-1]

    async def _save(self, changes: Sequence[Change]) -> int:
        """In batches; returns how many were written."""
        starts = range(0, len(changes), PAGE)
        return sum([sum(await self._store.save(changes[start : start + PAGE])) for start in starts])

    async def purge(self) -> int:
        """Apply retention, class by class. Returns the number of removed records."""
        await self.forget_silent()
        now_ms = self._clock.now_ms()
        rules = [
            rule
            for route in self._routes.values()
            for rule in purge_rules(route.name, route.plan.retention, now_ms)
        ]
        rules.append(PurgeRule(what="keys", before_ms=now_ms))
        rules.extend(
            PurgeRule(what="facts", fact_kind=kind, before_ms=now_ms - round(kept_s * 1000))
            for kind, kept_s in FACTS_KEPT_S.items()
        )
        purged = 0
        for rule in rules:
            while (number := await self._store.purge(rule)) > 0:
                purged += number
                if number < rule.limit:
                    break
        return purged


def _in_flight_of(holder: str) -> Query:
    return Query(holder=holder, facets=(Facet(state="in_flight"),))
