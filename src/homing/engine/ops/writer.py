"""The writes of operator verbs: checked, audited, passed to observers, tried again on conflict."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from homing.domain.delivery import Change, Delivery, Fact, FactValue, New
from homing.domain.errors import InvalidRequest, NotAllowed, NotFound
from homing.domain.policy import Plan
from homing.engine.ops.reader import AUDIT, ProgramFacts
from homing.engine.ops.verbs import VERBS, Verb
from homing.engine.process.process import Process
from homing.engine.route import Route
from homing.ports import Added, Transitioned

MAX_TEXT_CHARS = 2000
# How often a verb is repeated on a delivery that others are changing before it is refused.
CONTENTION_TRIES = 5

ChangeFor: TypeAlias = Callable[[Delivery], Change | None]
"""The change of a delivery as it is now; None when there is nothing to change any more."""


class Signed(Struct, frozen=True):
    """Who uses a verb, and why."""

    actor: str
    reason: str


def signed(actor: str, reason: str, *, named: str = "reason") -> Signed:
    checked_text("actor", actor)
    checked_text(named, reason)
    return Signed(actor, reason)


def checked_text(field: str, text: str) -> None:
    if not isinstance(text, str):
        raise InvalidRequest(field, f"must be text, not {type(text).__name__}")
    if not text.strip():
        raise InvalidRequest(field, "must not be empty")
    if len(text) > MAX_TEXT_CHARS:
        raise InvalidRequest(field, f"is longer than {MAX_TEXT_CHARS} characters")


class Writer:
    def __init__(
        self,
        process: Process,
        routes: Mapping[str, Route],
        program: ProgramFacts,
        no_route: Callable[[str], str],
        tell: Callable[[Sequence[Transitioned]], None],
    ) -> None:
        self._process = process
        self._store = process.store
        self._routes = routes
        self._tell = tell
        self._program = program
        self._no_route = no_route

    async def read(self, delivery_id: str) -> Delivery:
        delivery = await self._store.get(delivery_id)
        if delivery is None:
            raise NotFound(f"no delivery {delivery_id}")
        return delivery

    def route(self, name: str) -> Route:
        route = self._routes.get(name)
        if route is None:
            refusal = NotAllowed if name in self._program.route_owners else NotFound
            raise refusal(self._no_route(name))
        return route

    def plan(self, delivery: Delivery) -> Plan:
        return self.route(delivery.route).plan_of(delivery)

    async def checked(self, verb: Verb, delivery_id: str, cycle: int | None = None) -> Delivery:
        """The delivery, if this verb applies to it; `cycle` is the one that the operator saw."""
        delivery = await self.read(delivery_id)
        self.check(verb, delivery, cycle)
        return delivery

    def check(self, verb: Verb, delivery: Delivery, cycle: int | None) -> None:
        if verb not in self.route(delivery.route).verbs:
            raise NotAllowed(f"route {delivery.route!r} does not offer {verb}")
        # The transition checks its own delivery's state, but children come before it.
        row = VERBS[verb]
        if row.changes_children_first and delivery.state not in row.sources:
            raise NotAllowed(f"cannot {verb} delivery {delivery.id}: it is {delivery.state}")
        if cycle is not None and delivery.cycle != cycle:
            raise NotAllowed(
                f"cannot {verb} delivery {delivery.id}:"
                f" it is in cycle {delivery.cycle}, not {cycle}"
            )

    async def use(
        self,
        verb: Verb,
        delivery: Delivery,
        change_for: Callable[[Delivery], Change],
        by: Signed,
        *,
        children: Sequence[Delivery] = (),
        child_change_for: ChangeFor | None = None,
    ) -> Delivery:
        """Apply the verb to a delivery that was `checked`, with children that share its first save.

        It applies only to the cycle that was read first, so that two clicks have one effect.
        """

        def change(now: Delivery) -> Change | None:
            if now.id != delivery.id:
                return child_change_for(now) if child_change_for is not None else None
            self.check(verb, now, delivery.cycle)
            return change_for(now)

        for after in await self.write(verb, [delivery, *children], change, by):
            if after.id == delivery.id:
                return after
        raise NotFound(f"no delivery {delivery.id}")

    async def write(
        self,
        verb: Verb,
        deliveries: Sequence[Delivery],
        change_for: ChangeFor,
        by: Signed,
        **more: str,
    ) -> list[Delivery]:
        """Change these, as they were read, in one save; returns what was written, as stored.

        Those that others have changed in between are read again, and changed if that is still
        needed.
        """
        written: list[Delivery] = []
        left: Sequence[Delivery] = deliveries
        for _ in range(CONTENTION_TRIES):
            planned = [(now, change) for now in left if (change := change_for(now)) is not None]
            if not planned:
                return written
            lost = await self._save(verb, planned, by, written, **more)
            if not lost:
                return written
            read_again = [await self._store.get(one.id) for one in lost]
            left = [now for now in read_again if now is not None]
        raise NotAllowed(f"cannot {verb} delivery {left[0].id}: it is being changed by others")

    async def _save(
        self,
        verb: Verb,
        planned: Sequence[tuple[Delivery, Change]],
        by: Signed,
        written: list[Delivery],
        **more: str,
    ) -> list[Delivery]:
        """Those that were not saved, since others have changed them."""
        changes = []
        for before, change in planned:
            audit = self.audit_fact(verb, before.id, by, was=before.state, **more)
            changes.append(replace(change, facts=(*change.facts, audit)))
        answers = await self._store.save(changes)
        now_ms = self._process.clock.now_ms()
        told, lost = [], []
        for (before, change), saved in zip(planned, answers, strict=True):
            if not saved:
                lost.append(before)
                continue
            told.append(Transitioned(verb, change.delivery, before, change.ended, now_ms))
            written.append(replace(change.delivery, version=before.version + 1))
        self._tell(told)
        return lost

    async def add(self, verb: Verb, new: New) -> Delivery:
        """Store a new delivery, or return the stored one if its key is taken."""
        [answer] = await self._store.add([new])
        if not isinstance(answer, Added):
            return await self.read(answer.delivery_id)
        now_ms = self._process.clock.now_ms()
        self._tell([Transitioned(verb, new.delivery, None, (), now_ms)])
        return new.delivery

    async def note(self, verb: str, subject: str, by: Signed) -> None:
        """The audit fact alone."""
        await self._store.save([], [self.audit_fact(verb, subject, by)])

    def audit_fact(self, verb: str, subject: str, by: Signed, **more: str) -> Fact:
        now_ms = self._process.clock.now_ms()
        value: FactValue = {"verb": verb, "actor": by.actor, "reason": by.reason, **more}
        # The random end makes the keys of two verbs in one millisecond different.
        unique = self._process.rng.entropy(4).hex()
        return Fact(AUDIT, f"{subject}/{now_ms:015d}-{unique}", now_ms, value)
