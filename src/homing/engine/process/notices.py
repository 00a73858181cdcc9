"""Notices: messages to a person or a file about a change of state.

That a notice is due is stored with the state, so a crash may repeat one but loses none.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Iterable, Mapping, Sequence

from homing.domain import transitions
from homing.domain.delivery import Attempt, Delivery
from homing.engine.route import Route
from homing.ports import Clock, Notifier, Query, Store

log = logging.getLogger("homing.engine")

NOTICES_EVERY_S = 15.0
NOTIFY_WITHIN_S = 10.0
# A notifier that did not answer is left alone for this long.
REST_AFTER_SILENCE_S = 60.0
# Changes of other processes are found by their time; clocks may differ by this much.
CLOCKS_DIFFER_S = 60.0
# All that is due is read at the start, and then at this interval and for this share of the time.
LOOK_THROUGH_EVERY_S = 3600.0
SHARE_OF_LOOKING_THROUGH = 0.02
# After this many refusals in a row the rest waits for the next pass.
MOST_REFUSALS = 20
# More than these are left to the next look through all.
MOST_REFUSED = 10_000
PAGE = 200


class Notices:
    """The notices of one kind, in a task of their own: a notifier that hangs delays no other kind.

    A notice goes to the first notifier that accepts it. The cost depends on new notices only:
    those that no notifier here accepts are not read again and again.
    """

    def __init__(
        self,
        kind: str,
        notifiers: Sequence[Notifier],
        store: Store,
        clock: Clock,
        routes: Mapping[str, Route],
    ) -> None:
        self.kind = kind
        self._notifiers = notifiers
        self._store = store
        self._clock = clock
        self._routes = routes
        self._are_due = asyncio.Event()
        # By id, in the order in which they came; the refused ones with the version that was tried.
        self._noted: dict[str, None] = {}
        self._refused: dict[str, int] = {}
        self._resting_until_s: dict[int, float] = {}
        self._next_look_through_s = float("-inf")
        self._looked_at_ms = 0

    def note(self, deliveries: Iterable[Delivery]) -> None:
        """Remember that a notice of these is due; the change is stored already."""
        due = [delivery.id for delivery in deliveries if self.kind in delivery.notices_due]
        if due:
            self._noted.update(dict.fromkeys(due))
            self._are_due.set()

    async def wait(self) -> None:
        """Until there are new ones, or it is time to read those of other processes."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(NOTICES_EVERY_S):
                await self._are_due.wait()

    async def give_due(self) -> int:
        """Deliver those of new changes, and retry some refused ones; how many were accepted."""
        self._are_due.clear()
        began_s, now_ms = self._clock.steady_s(), self._clock.now_ms()
        if began_s >= self._next_look_through_s:
            given = await self.give_all()
            ended_s = self._clock.steady_s()
            took_s = (ended_s - began_s) / SHARE_OF_LOOKING_THROUGH
            self._next_look_through_s = ended_s + max(LOOK_THROUGH_EVERY_S, took_s)
        else:
            given = await self._give_noted()
            since_ms = self._looked_at_ms - round(CLOCKS_DIFFER_S * 1000)
            given += await self._look_through(Query(notices_due=True, updated_from_ms=since_ms))
            given += await self._try_refused()
        self._looked_at_ms = now_ms
        return given

    async def give_all(self) -> int:
        """Read and deliver all that are due; returns how many were accepted."""
        self._noted.clear()
        self._refused.clear()
        return await self._look_through(Query(notices_due=True))

    async def _give_noted(self) -> int:
        given = 0
        for delivery_id in list(self._noted):
            given += await self._give(await self._store.get(delivery_id))
            self._noted.pop(delivery_id, None)
        return given

    async def _try_refused(self) -> int:
        given = refusals = 0
        for delivery_id in list(self._refused):
            self._refused.pop(delivery_id, None)
            taken = await self._give(await self._store.get(delivery_id))
            given += taken
            refusals = 0 if taken else refusals + 1
            if refusals >= MOST_REFUSALS:
                break
        return given

    async def _look_through(self, query: Query) -> int:
        given = 0
        page = await self._store.page(query, limit=PAGE)
        while True:
            for delivery in page.items:
                if self._refused.get(delivery.id) != delivery.version:
                    given += await self._give(delivery)
            if page.next is None:
                return given
            page = await self._store.page(query, page.next, limit=PAGE)

    async def _give(self, delivery: Delivery | None) -> int:
        if delivery is None or self.kind not in delivery.notices_due:
            return 0
        if delivery.state == "in_flight":
            return 0  # its holder writes next; then it is asked for again
        attempts = await self._store.attempts(delivery.id)
        for notifier in self._notifiers:
            if await self._is_taken(notifier, delivery, attempts):
                await self._mark_given(delivery)
                return 1
        if len(self._refused) < MOST_REFUSED:
            self._refused[delivery.id] = delivery.version
        return 0

    async def _is_taken(
        self, notifier: Notifier, delivery: Delivery, attempts: Sequence[Attempt]
    ) -> bool:
        """A notifier that fails has refused this one; one that hangs is skipped for a while."""
        if self._resting_until_s.get(id(notifier), 0.0) > self._clock.steady_s():
            return False
        try:
            async with asyncio.timeout(NOTIFY_WITHIN_S):
                return await notifier.notify(self.kind, delivery, attempts)
        except TimeoutError:
            log.warning("notifier_silent notifier=%s", type(notifier).__name__)
            rests_until_s = self._clock.steady_s() + REST_AFTER_SILENCE_S
            self._resting_until_s[id(notifier)] = rests_until_s
        except Exception:
            log.exception("notifier %s failed", type(notifier).__name__)
        return False

    async def _mark_given(self, delivery: Delivery) -> None:
        """Another kind may be marked at the same time: then the delivery is read again."""
        route = self._routes.get(delivery.route)
        plan = None if route is None else route.plan_of(delivery)
        current: Delivery | None = delivery
        while current is not None and self.kind in current.notices_due:
            change = transitions.mark_notified(current, (self.kind,), plan=plan)
            if current.state == "in_flight" or (await self._store.save([change]))[0]:
                return
            current = await self._store.get(delivery.id)


def notices_of(
    notifiers: Sequence[Notifier], store: Store, clock: Clock, routes: Mapping[str, Route]
) -> list[Notices]:
    """One for each kind of notice that some notifier knows."""
    kinds = sorted({kind for notifier in notifiers for kind in notifier.notices})
    return [
        Notices(kind, [each for each in notifiers if kind in each.notices], store, clock, routes)
        for kind in kinds
    ]
