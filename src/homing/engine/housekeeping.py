"""Housekeeping: notices due, leases of dead processes, retention, work that no worker serves."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence

from homing.domain import transitions
from homing.domain.delivery import Change, Delivery, State
from homing.domain.policy import Retention
from homing.engine.liveness import WORKER, Liveness
from homing.engine.parking import Parking
from homing.engine.route import Route
from homing.engine.save_batcher import late_outcome
from homing.engine.unserved import unserved_lanes, unserved_text
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
NOTICES_EVERY_S = 15.0
SHARE_OF_SWEEPS = 0.02
# Small facts that lose their use with time; audits are kept.
FACTS_KEPT_S = {
    "late_outcome": 30 * 86_400.0,
    "mismatch": 90 * 86_400.0,
    "bulk_actions": 30 * 86_400.0,
    "bulk_stop": 30 * 86_400.0,
}
# A process that was only silent may come back until then.
FORGET_SILENT_AFTER_S = 3600.0


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
        self._unserved: frozenset[str] = frozenset()
        self._alerted: set[str] = set()
        self._unknown: dict[str, int] = {}
        self._known_notices = {notice for each in notifiers for notice in each.notices}
        # In the order in which they came.
        self._noted: dict[str, None] = {}
        self._next_sweep_s = float("-inf")
        self._settled: frozenset[str] = frozenset()
        self._reading_back = asyncio.Lock()

    async def read_back(self) -> int:
        """Store the outcomes that the emergency journal kept; returns how many there were."""
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

    async def look_around(self) -> bool:
        """Every second: which processes are alive, which leases to end, which routes are parked.

        Returns whether the set of parked routes has changed.
        """
        await self._liveness.look()
        if self._liveness.has_beaten:
            # A process without heartbeats cannot tell the silence of others from its own pause.
            await self.end_leases_of_the_dead()
        return await self._parking.refresh()

    def note_due(self, deliveries: Iterable[Delivery]) -> None:
        """Remember that notices of these are due; the change is stored already."""
        self._noted.update((delivery.id, None) for delivery in deliveries if delivery.notices_due)

    async def give_due_notices(self) -> None:
        """Give the notices of this process's changes; from time to time those of all processes.

        Many notices may be impossible to give here (their notifier runs elsewhere, or refuses), so
        reading all of them takes only a small share of the time.
        """
        began_s = self._clock.steady_s()
        if began_s < self._next_sweep_s:
            await self._give_new_notices()
            return
        await self.give_notices()
        ended_s = self._clock.steady_s()
        rest_s = max(NOTICES_EVERY_S, (ended_s - began_s) / SHARE_OF_SWEEPS)
        self._next_sweep_s = ended_s + rest_s

    async def _give_new_notices(self) -> None:
        noted, self._noted = self._noted, {}
        for delivery_id in noted:
            delivery = await self._store.get(delivery_id)
            if delivery is not None:
                await self._give(delivery)
        await self._alert_parked_routes()

    async def give_notices(self) -> int:
        """Give all notices that are due; after a crash one may be repeated, none is lost."""
        self._noted.clear()
        given = 0
        page = await self._store.page(Query(owing=True), limit=PAGE)
        while page.items:
            for delivery in page.items:
                given += await self._give(delivery)
            if page.next is None:
                break
            page = await self._store.page(Query(owing=True), page.next, limit=PAGE)
        await self._alert_parked_routes()
        return given

    async def _alert_parked_routes(self) -> None:
        if self._alarm is None or not self._parking.unalerted():
            return
        await self._parking.refresh()
        for fact in self._parking.unalerted():
            text = f"route {fact.key} is parked: {(fact.value or {}).get('reason')}"
            if await self._alarm.sound(Alert("route_parked", fact.key, text, fact.at_ms)):
                await self._parking.mark_alerted(fact)

    async def _give(self, delivery: Delivery) -> int:
        if delivery.state == "in_flight":
            return 0  # its holder writes next; then it is asked for again
        if self._known_notices.isdisjoint(delivery.notices_due):
            return 0
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
        """The work of dead processes is due now, however long its leases seem to last."""
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
        return await self._save([transitions.end_lease(each, now_ms=now_ms) for each in held])

    async def forget_silent(self) -> None:
        """Heartbeats of processes that ended long ago on other hosts."""
        before_ms = self._clock.now_ms() - FORGET_SILENT_AFTER_S * 1000
        for fact in await self._store.facts(WORKER):
            if fact.key in self._settled and fact.at_ms < before_ms:
                await self._liveness.forget(fact.key)

    async def give_back_unknown(self, holder: str, held_ids: Callable[[], frozenset[str]]) -> int:
        """A claim whose answer was lost: the store names this process, but no task here knows it.

        Seen twice in a row, unchanged, it is given back: no other process would take it.
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
        """All that is in flight in its name, oldest first."""
        page = await self._store.page(_in_flight_of(holder), limit=PAGE)
        held = list(page.items)
        while page.next is not None:
            page = await self._store.page(_in_flight_of(holder), page.next, limit=PAGE)
            held += page.items
        return held[::-1]

    async def _save(self, changes: Sequence[Change]) -> int:
        """In batches; how many were written."""
        starts = range(0, len(changes), PAGE)
        return sum([sum(await self._store.save(changes[start : start + PAGE])) for start in starts])

    async def purge(self) -> int:
        """Retention, class by class; open dead letters stay."""
        await self.forget_silent()
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
        """Lanes with waiting work that no live process serves raise an alert, once.

        Only at the second look in a row: a worker that is being restarted needs no alert.
        """
        unserved = await unserved_lanes(self._store, self._liveness)
        for lane in sorted(unserved.keys() & self._unserved - self._alerted):
            text = unserved_text(lane, unserved[lane])
            alert = Alert("unserved", lane, text, self._clock.now_ms())
            if self._alarm is not None and await self._alarm.sound(alert):
                self._alerted.add(lane)
        self._unserved = frozenset(unserved)
        self._alerted &= self._unserved
        return self._unserved


def _in_flight_of(holder: str) -> Query:
    return Query(holder=holder, facets=(Facet(state="in_flight"),))


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
