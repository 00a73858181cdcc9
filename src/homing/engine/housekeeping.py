"""Housekeeping: notices due, leases of the dead, retention, and what nobody serves."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping, Sequence

from homing.domain import transitions
from homing.domain.delivery import Change, Delivery, State
from homing.domain.errors import StoreError
from homing.domain.policy import Retention
from homing.engine.liveness import WORKER, Liveness
from homing.engine.parking import Parking
from homing.engine.route import Route
from homing.engine.save_batcher import late_outcome
from homing.ports import (
    Alarm,
    Alert,
    Clock,
    Facet,
    Journal,
    Notifier,
    PurgeKind,
    PurgeRule,
    Query,
    Store,
)

PAGE = 200
# Small notes that nobody asks for after a while; audits stay with us.
FACTS_KEPT_S = {"late_outcome": 30 * 86_400.0, "mismatch": 90 * 86_400.0, "replays": 30 * 86_400.0}
# A heartbeat this much older than the patience is no longer of interest to anyone.
FORGET_DEAD_AFTER_S = 24 * 3600.0


class Housekeeping:
    def __init__(  # noqa: PLR0913 - it looks after every part of a process
        self,
        store: Store,
        clock: Clock,
        routes: Mapping[str, Route],
        parking: Parking,
        liveness: Liveness,
        *,
        notifiers: Sequence[Notifier] = (),
        alarm: Alarm | None = None,
        journal: Journal | None = None,
    ) -> None:
        self._store = store
        self._clock = clock
        self._routes = routes
        self._parking = parking
        self._liveness = liveness
        self._notifiers = notifiers
        self._alarm = alarm
        self._journal = journal
        self._unserved: set[str] = set()
        self._unknown: dict[str, int] = {}
        self._reading_back = asyncio.Lock()

    async def read_back(self) -> int:
        """Store what the emergency journal kept; how many outcomes it were (P8)."""
        if self._journal is None:
            return 0
        async with self._reading_back:
            entries = await self._journal.entries()
            if not entries:
                return 0
            saved = await self._store.save(entries)
            lost = [change for change, kept in zip(entries, saved, strict=True) if not kept]
            for change in lost:
                await self._keep_late(change)
            await self._journal.clear()
            return len(entries)

    async def _keep_late(self, change: Change) -> None:
        await self._store.save([], late_outcome(change, self._clock.now_ms()))

    async def often(self) -> None:
        """Every beat: who is alive, which routes are parked, whose leases have no holder."""
        await self._liveness.beat()
        await self._liveness.look()
        await self._parking.refresh()
        await self.end_leases_of_the_dead()

    async def seldom(self) -> None:
        """Now and then: retention, and what no live worker serves."""
        await self.purge()
        await self.look_for_unserved()

    async def give_notices(self) -> int:
        """Pay what transitions owe; a notice is repeated rather than lost."""
        paid = 0
        page = await self._store.page(Query(owing=True), limit=PAGE)
        while page.items:
            for delivery in page.items:
                paid += await self._pay(delivery)
            if page.next is None:
                break
            page = await self._store.page(Query(owing=True), page.next, limit=PAGE)
        if self._alarm is not None and self._parking.unalerted():
            await self._parking.refresh()
            for fact in self._parking.unalerted():
                text = f"route {fact.key} is parked: {(fact.value or {}).get('reason')}"
                if await self._alarm.sound(Alert("route_parked", fact.key, text, fact.at_ms)):
                    await self._parking.mark_alerted(fact)
        return paid

    async def _pay(self, delivery: Delivery) -> int:
        if delivery.state == "in_flight":
            return 0  # its holder writes next; then it is asked for again
        given = []
        attempts = await self._store.attempts(delivery.id)
        for notice in delivery.notices_due:
            for notifier in self._notifiers:
                if notice in notifier.notices and await notifier.notify(notice, delivery, attempts):
                    given.append(notice)
                    break
        if not given:
            return 0
        route = self._routes.get(delivery.route)
        plan = None if route is None else route.plan_of(delivery)
        change = transitions.mark_notified(delivery, tuple(given), plan=plan)
        await self._store.save([change])
        return len(given)

    async def end_leases_of_the_dead(self) -> int:
        """A dead holder's lease ends now, even if a clock step has moved its end far away."""
        ended = 0
        for holder in sorted(self._liveness.dead):
            query = Query(holder=holder, facets=(Facet(state="in_flight"),))
            page = await self._store.page(query, limit=PAGE)
            if page.items:
                # The judgement may be old: we may have been frozen since.
                await self._liveness.look()
                if holder not in self._liveness.dead:
                    continue
            now_ms = self._clock.now_ms()
            changes = [
                transitions.end_lease(delivery, now_ms=now_ms)
                for delivery in page.items
                if (delivery.due_at_ms or 0) > now_ms
            ]
            if changes:
                ended += sum(await self._store.save(changes))
            elif not page.items:
                await self._forget_if_old(holder)
        return ended

    async def give_back_unknown(self, holder: str, held_ids: Callable[[], frozenset[str]]) -> int:
        """A claim whose answer was lost is ours in the store and in nobody's hands.

        Seen so twice in a row, unchanged, it is given back: everybody else spares us.
        """
        query = Query(holder=holder, facets=(Facet(state="in_flight"),))
        page = await self._store.page(query, limit=PAGE)
        held = held_ids()  # after the read: what was added meanwhile is known
        unknown = {d.id: d for d in page.items if d.id not in held}
        now_ms = self._clock.now_ms()
        changes = [
            transitions.end_lease(delivery, now_ms=now_ms)
            for delivery in unknown.values()
            if self._unknown.get(delivery.id) == delivery.version
        ]
        self._unknown = {delivery.id: delivery.version for delivery in unknown.values()}
        return sum(await self._store.save(changes)) if changes else 0

    async def holds_any(self, holder: str) -> bool:
        query = Query(holder=holder, facets=(Facet(state="in_flight"),))
        return bool((await self._store.page(query, limit=1)).items)

    async def _forget_if_old(self, holder: str) -> None:
        for fact in await self._store.facts(WORKER, holder):
            age_ms = self._clock.now_ms() - fact.at_ms
            if fact.key == holder and age_ms > FORGET_DEAD_AFTER_S * 1000:
                await self._liveness.forget(holder)

    async def purge(self) -> int:
        """Retention, class by class; open dead letters stay."""
        now_ms = self._clock.now_ms()
        rules = [
            rule
            for route in self._routes.values()
            for rule in _rules(route.name, route.plan.retention, now_ms)
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

    async def look_for_unserved(self) -> frozenset[str]:
        """Lanes with waiting work that no living process serves raise an alert, once."""
        served = {lane for route in self._routes.values() for lane in route.served_lanes}
        for fact in await self._store.facts(WORKER):
            if fact.key in self._liveness.alive:
                served.update(str((fact.value or {}).get("lanes") or "").split("\n"))
        counts = await self._store.count(Query(facets=(Facet(state="pending"),)), by=("lane",))
        unserved = {lane for (lane,) in counts} - served
        for lane in unserved - self._unserved:
            if self._alarm is not None:
                text = f"nobody serves {lane}: {counts[(lane,)]} waiting"
                with contextlib.suppress(StoreError):
                    alert = Alert("unserved", lane, text, self._clock.now_ms())
                    await self._alarm.sound(alert)
        self._unserved = unserved
        return frozenset(unserved)


def _rules(route: str, retention: Retention, now_ms: int) -> list[PurgeRule]:
    table: tuple[tuple[PurgeKind, float | None, tuple[State, ...]], ...] = (
        ("delivery", retention.delivered_s, ("delivered", "suppressed")),
        ("delivery", retention.dismissed_s, ("dismissed",)),
        ("delivery", retention.failed_s, ("failed",)),
        ("payload", retention.payload_s, ("delivered", "suppressed", "dismissed")),
        ("payload", retention.failed_payload_s, ("failed",)),
        ("attempts", retention.attempts_s, ()),
    )
    return [
        PurgeRule(what=what, route=route, states=states, before_ms=now_ms - round(kept_s * 1000))
        for what, kept_s, states in table
        if kept_s is not None
    ]
