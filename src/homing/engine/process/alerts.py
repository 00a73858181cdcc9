"""Alerts that concern no single delivery: paused routes, unserved work, the store's health."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping

from homing.domain.delivery import Fact
from homing.engine.process.liveness import Liveness
from homing.engine.process.pausing import Pausing
from homing.engine.process.unserved import unserved_queues, unserved_text
from homing.engine.route import Route
from homing.ports import Alarm, Alert, Clock, Facet, Query, Store

log = logging.getLogger("homing.engine")

SOUND_WITHIN_S = 10.0
# Facts by queue: the alert was raised, by whichever process.
UNSERVED_ALERT = "unserved_alert"
# Facts by route: that it has more dead letters than it should have was told.
MANY_FAILED = "many_failed"
WEEK_MS = 7 * 86_400_000
# A store that notices a backup which was put back writes this fact.
RESTORED = "store_restored"
# A store that has put an unreadable end of a file aside writes this one.
QUARANTINED = "store_quarantined"


class Alerts:
    """One process of a store raises the alerts that every process would raise."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        pausing: Pausing,
        liveness: Liveness,
        alarm: Alarm | None,
        routes: Mapping[str, Route],
    ) -> None:
        self._store = store
        self._clock = clock
        self._pausing = pausing
        self._liveness = liveness
        self._alarm = alarm
        self._routes = routes
        self._unserved: frozenset[str] = frozenset()

    async def sound(self, alert: Alert) -> bool:
        """Whether the alarm accepted it; without an alarm there is nothing to wait for."""
        if self._alarm is None:
            return True
        try:
            async with asyncio.timeout(SOUND_WITHIN_S):
                return await self._alarm.sound(alert)
        except TimeoutError:
            log.warning("alarm_silent alert=%s key=%s", alert.kind, alert.key)
            return False

    async def sound_now(self, kind: str, key: str, text: str) -> bool:
        return await self.sound(Alert(kind, key, text, self._clock.now_ms()))

    async def alert_paused_routes(self) -> None:
        """Alert once for each route that a fault has paused."""
        if not self._is_mine() or not self._pausing.unalerted():
            return
        await self._pausing.refresh()
        for fact in self._pausing.unalerted():
            text = f"route {fact.key} is paused: {(fact.value or {}).get('reason')}"
            if await self.sound(Alert("route_paused", fact.key, text, fact.at_ms)):
                await self._pausing.mark_alerted(fact)

    async def alert_noticed(self) -> None:
        """Alert once for what the store has noticed when it was opened."""
        if not self._is_mine():
            return
        for kind in (RESTORED, QUARANTINED):
            for fact in await self._store.facts(kind):
                value = dict(fact.value or {})
                alert = Alert(kind, "store", str(value.get("text")), fact.at_ms)
                if not value.get("alerted") and await self.sound(alert):
                    told = Fact(kind, fact.key, fact.at_ms, {**value, "alerted": 1})
                    await self._store.save([], [told])

    async def alert_many_failed(self) -> None:
        """Alert once for each route with more dead letters in a week than it should have."""
        limits = {
            name: route.most_failed_a_week
            for name, route in self._routes.items()
            if route.most_failed_a_week is not None
        }
        if not limits or not self._is_mine():
            return
        now_ms, facts = self._clock.now_ms(), []
        told = {fact.key for fact in await self._store.facts(MANY_FAILED)}
        for name, most in limits.items():
            number = await failed_since(self._store, name, now_ms - WEEK_MS)
            text = f"route {name} has {number} dead letters of the last 7 days, more than {most}"
            if number <= most:
                facts += [Fact(MANY_FAILED, name, now_ms, None)] if name in told else []
            elif name not in told and await self.sound(Alert(MANY_FAILED, name, text, now_ms)):
                facts.append(Fact(MANY_FAILED, name, now_ms, {"number": number}))
        if facts:
            await self._store.save([], facts)

    async def alert_unserved(self) -> frozenset[str]:
        """Alert once for each queue with waiting work that no live process serves.

        Only at the second check in a row: a worker that is being restarted needs no alert.
        """
        unserved = await unserved_queues(self._store, self._liveness)
        again, self._unserved = unserved.keys() & self._unserved, frozenset(unserved)
        if self._is_mine():
            await self._update_alerts({queue: unserved[queue] for queue in sorted(again)}, unserved)
        return self._unserved

    async def _update_alerts(self, again: Mapping[str, int], all_: Mapping[str, int]) -> None:
        told = {fact.key for fact in await self._store.facts(UNSERVED_ALERT)}
        now_ms = self._clock.now_ms()
        facts = [Fact(UNSERVED_ALERT, queue, now_ms, None) for queue in sorted(told - all_.keys())]
        for queue, number in again.items():
            alert = Alert("unserved", queue, unserved_text(queue, number), now_ms)
            if queue not in told and await self.sound(alert):
                facts.append(Fact(UNSERVED_ALERT, queue, now_ms))
        if facts:
            await self._store.save([], facts)

    def _is_mine(self) -> bool:
        return self._alarm is not None and self._liveness.is_first_with_alarm


async def failed_since(store: Store, route: str, since_ms: int) -> int:
    """How many requests of this route have become dead letters since then, and still are."""
    failed = (Facet(state="failed"),)
    query = Query(route=route, facets=failed, top_only=True, updated_from_ms=since_ms)
    return sum((await store.count(query)).values())
