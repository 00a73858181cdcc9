"""Notices: messages to a person or a file about a change of state.

That a notice is due is stored with the state, so a crash may repeat one but loses none.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import TypeGuard

from homing.domain import transitions
from homing.domain.delivery import Change, Delivery
from homing.engine.route import Route
from homing.ports import Clock, Notice, Notifier, Query, Store

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
# How many are read at a time.
GROUP = 200


class Notices:
    """The notices of one kind, in a task of their own: a notifier that hangs delays no other kind.

    They are read, delivered and marked in groups. A notice goes to the first notifier that accepts
    it. The cost depends on new notices only: those that no notifier here accepts are not read
    again and again.
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
        # From the read of a group to its marks: another call would deliver the same ones.
        self._giving = asyncio.Lock()
        # Versions by id, in the order in which they came; of a refused one that which was tried.
        self._noted: dict[str, int] = {}
        self._refused: dict[str, int] = {}
        self._resting_until_s: dict[int, float] = {}
        self._next_look_through_s = float("-inf")
        self._looked_at_ms = 0

    def note(self, deliveries: Iterable[Delivery]) -> None:
        """Remember that a notice of these is due; the change is stored already."""
        due = {each.id: each.version for each in deliveries if self.kind in each.notices_due}
        if due:
            self._noted.update(due)
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
            given = await self.give_noted()
            since_ms = self._looked_at_ms - round(CLOCKS_DIFFER_S * 1000)
            given += await self._look_through(Query(notices_due=True, updated_from_ms=since_ms))
            given += await self._try_refused()
        self._looked_at_ms = now_ms
        return given

    async def give_all(self) -> int:
        """Read and deliver all that are due; returns how many were accepted."""
        self._refused.clear()
        given = await self.give_noted()
        return given + await self._look_through(Query(notices_due=True))

    async def give_noted(self) -> int:
        """Deliver those of the changes of this process; returns how many were accepted.

        What was noted before this call has been delivered or refused when it returns.
        """
        given = 0
        while self._noted:
            async with self._giving:
                group = dict(islice(self._noted.items(), GROUP))
                found = await self._store.get_many(list(group)) if group else []
                given += await self._give(found)
                for delivery_id, version in group.items():
                    if self._noted.get(delivery_id) == version:
                        del self._noted[delivery_id]
        return given

    async def _try_refused(self) -> int:
        """A few at a time, as long as some of them are accepted."""
        given = 0
        waiting = list(self._refused)
        for start in range(0, len(waiting), MOST_REFUSALS):
            async with self._giving:
                ids = waiting[start : start + MOST_REFUSALS]
                found = await self._store.get_many(ids)
                tried = {each: self._refused.pop(each) for each in ids if each in self._refused}
                try:
                    accepted = await self._give(found)
                except BaseException:
                    self._refused.update(tried)
                    raise
            given += accepted
            if not accepted:
                break
        return given

    async def _look_through(self, query: Query) -> int:
        given, cursor = 0, None
        while True:
            async with self._giving:
                page = await self._store.page(query, cursor, limit=GROUP)
                known = self._refused
                given += await self._give(
                    [each for each in page.items if known.get(each.id) != each.version]
                )
            cursor = page.next
            if cursor is None:
                return given

    async def _give(self, deliveries: Sequence[Delivery | None]) -> int:
        """Ask the notifiers in turn, each for what is left; returns how many were accepted."""
        # What is in flight is noted again: its holder writes next.
        due = [each for each in deliveries if self._is_due(each)]
        attempts = await self._store.attempts_of_many([each.id for each in due]) if due else []
        left = [Notice(*each) for each in zip(due, attempts, strict=True)]
        for notifier in self._notifiers:
            refused: list[Notice] = []
            size = min(notifier.most_at_once, GROUP)
            for start in range(0, len(left), size):
                group = left[start : start + size]
                answers = await self._ask(notifier, group)
                accepted = [
                    each.delivery for each, done in zip(group, answers, strict=True) if done
                ]
                await self._mark_given(accepted)
                refused += [each for each, done in zip(group, answers, strict=True) if not done]
            left = refused
        for notice in left[: max(MOST_REFUSED - len(self._refused), 0)]:
            self._refused[notice.delivery.id] = notice.delivery.version
        return len(due) - len(left)

    def _is_due(self, delivery: Delivery | None) -> TypeGuard[Delivery]:
        return (
            delivery is not None
            and self.kind in delivery.notices_due
            and delivery.state != "in_flight"
        )

    async def _ask(self, notifier: Notifier, group: Sequence[Notice]) -> Sequence[bool]:
        """Each that is not accepted is refused. A notifier that hangs is skipped for a while."""
        refused = [False] * len(group)
        if self._resting_until_s.get(id(notifier), 0.0) > self._clock.steady_s():
            return refused
        try:
            async with asyncio.timeout(NOTIFY_WITHIN_S):
                answers = await notifier.notify(self.kind, group)
            return [done for _, done in zip(group, answers, strict=True)]
        except TimeoutError:
            log.warning("notifier_silent notifier=%s", type(notifier).__name__)
            rests_until_s = self._clock.steady_s() + REST_AFTER_SILENCE_S
            self._resting_until_s[id(notifier)] = rests_until_s
        except Exception:
            log.exception("notifier %s failed", type(notifier).__name__)
            if len(group) > 1:
                # One of them may be the reason: each is asked for by itself.
                return [(await self._ask(notifier, [notice]))[0] for notice in group]
        return refused

    async def _mark_given(self, deliveries: Sequence[Delivery]) -> None:
        """In one write. Another kind may be marked at the same time: those are read again."""
        cycles = {each.id: each.cycle for each in deliveries}
        left = list(deliveries)
        while left:
            saved = await self._store.save([self._marked(each) for each in left])
            moved = [each.id for each, stored in zip(left, saved, strict=True) if not stored]
            found = await self._store.get_many(moved) if moved else []
            # One that was replayed and has ended again has a new notice due.
            left = [
                each
                for each in found
                if self._is_due(each)
                and (each.cycle == cycles[each.id] or each.ended_at_ms is None)
            ]

    def _marked(self, delivery: Delivery) -> Change:
        route = self._routes.get(delivery.route)
        plan = None if route is None else route.plan_of(delivery)
        return transitions.mark_notified(delivery, (self.kind,), plan=plan)


def notices_of(
    notifiers: Sequence[Notifier], store: Store, clock: Clock, routes: Mapping[str, Route]
) -> list[Notices]:
    """One for each kind of notice that some notifier knows."""
    kinds = sorted({kind for notifier in notifiers for kind in notifier.notices})
    return [
        Notices(kind, [each for each in notifiers if kind in each.notices], store, clock, routes)
        for kind in kinds
    ]
