"""The desk: the operator's verbs, over the same transitions, each with actor and reason."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from msgspec.structs import replace

from homing.domain import transitions
from homing.domain.delivery import Attempt, Change, Delivery, Fact, FactValue
from homing.domain.errors import InvalidRequest, NotAllowed, NotFound
from homing.domain.policy import Plan
from homing.engine.parking import Parking
from homing.engine.process import Process
from homing.engine.route import Route, Verb
from homing.ports import Added, Cursor, Facet, Page, Query, Transitioned

AUDIT = "audit"
RESEND_SOURCE = "operator_resend"
MAX_TEXT_CHARS = 2000
# How often a verb meets a delivery that somebody else is changing before it gives up.
CONTENTION_TRIES = 5


class Desk:
    def __init__(
        self,
        process: Process,
        parking: Parking,
        routes: Mapping[str, Route],
        tell: Callable[[Sequence[Transitioned]], None],
    ) -> None:
        self._process = process
        self._store = process.store
        self._clock = process.clock
        self._parking = parking
        self._routes = routes
        self._tell = tell

    async def show(self, delivery_id: str) -> Delivery:
        delivery = await self._store.get(delivery_id)
        if delivery is None:
            raise NotFound(f"no delivery {delivery_id}")
        return delivery

    async def list(self, query: Query, cursor: Cursor | None = None, limit: int = 50) -> Page:
        return await self._store.page(query, cursor, limit)

    async def attempts(self, delivery_id: str) -> Sequence[Attempt]:
        """The ledger, with the scheduled or running one last."""
        ended = await self._store.attempts(delivery_id)
        delivery = await self._store.get(delivery_id)
        if delivery is None:
            if not ended:
                raise NotFound(f"no delivery {delivery_id}")
            return ended
        return [*ended, *_current(delivery)]

    async def audit(self, delivery_id: str) -> Sequence[Fact]:
        return await self._store.facts(AUDIT, f"{delivery_id}/")

    async def replay(
        self,
        delivery_id: str,
        *,
        actor: str,
        reason: str,
        generation: int | None = None,
        cycle: int | None = None,
    ) -> Delivery:
        """In place, from the failed stage, with a new budget; a parent takes its children along.

        With `cycle`, the one that the operator saw, a click that comes late does nothing.
        """
        return await self._again(
            "replay",
            delivery_id,
            lambda delivery: self._replay_change(delivery, actor, reason, generation),
            actor,
            reason,
            cycle=cycle,
            generation=generation,
        )

    async def restart(
        self, delivery_id: str, *, actor: str, reason: str, cycle: int | None = None
    ) -> Delivery:
        """From the first stage, results dropped."""

        def change(delivery: Delivery) -> Change:
            plan, now_ms = self._plan(delivery), self._clock.now_ms()
            return transitions.restart(
                delivery, plan=plan, actor=actor, reason=reason, now_ms=now_ms
            )

        return await self._again("restart", delivery_id, change, actor, reason, cycle=cycle)

    async def _again(
        self,
        verb: Verb,
        delivery_id: str,
        change: Callable[[Delivery], Change],
        actor: str,
        reason: str,
        *,
        cycle: int | None,
        generation: int | None = None,
    ) -> Delivery:
        """A parent takes its children along, a child opens its parent again."""
        before = await self._checked(verb, delivery_id, actor, reason, cycle)
        # Children first: a worker that finds the parent due must not see them failed still.
        await self._replay_children(before, actor, reason, generation)
        after = await self._apply(verb, delivery_id, change, actor, reason, cycle=before.cycle)
        await self._reopen_parent(after, actor, reason, generation)
        return after

    async def dismiss(
        self, delivery_id: str, *, actor: str, reason: str, cycle: int | None = None
    ) -> Delivery:
        return await self._apply(
            "dismiss", delivery_id, self._timed(transitions.dismiss), actor, reason, cycle=cycle
        )

    async def restore(self, delivery_id: str, *, actor: str, reason: str) -> Delivery:
        return await self._apply(
            "restore", delivery_id, self._timed(transitions.restore), actor, reason
        )

    async def cancel(self, delivery_id: str, *, actor: str, reason: str) -> Delivery:
        return await self._apply(
            "cancel",
            delivery_id,
            lambda delivery: transitions.cancel(
                delivery, plan=self._plan(delivery), now_ms=self._clock.now_ms()
            ),
            actor,
            reason,
        )

    async def confirm(
        self, delivery_id: str, *, actor: str, reason: str, evidence: str
    ) -> Delivery:
        """An uncertain one was accepted after all; the evidence is kept."""
        _demand("evidence", evidence)
        confirmed = await self._apply(
            "confirm",
            delivery_id,
            lambda delivery: transitions.confirm(
                delivery,
                plan=self._plan(delivery),
                evidence=evidence,
                now_ms=self._clock.now_ms(),
            ),
            actor,
            reason,
        )
        await self._reopen_parent(confirmed, actor, reason, None)
        return confirmed

    async def amend(
        self,
        delivery_id: str,
        payload: bytes,
        *,
        actor: str,
        reason: str,
        addresses: tuple[str, ...] | None = None,
    ) -> Delivery:
        """Attach a corrected payload (and envelope); the old one stays readable."""
        return await self._apply(
            "amend",
            delivery_id,
            lambda delivery: transitions.amend(
                delivery,
                payload,
                plan=self._plan(delivery),
                now_ms=self._clock.now_ms(),
                addresses=addresses,
            ),
            actor,
            reason,
        )

    async def resend(
        self, delivery_id: str, *, actor: str, reason: str, key: str | None = None
    ) -> Delivery:
        """A deliberate second delivery: a clone with its own id, key and history."""
        _demand("actor", actor)
        _demand("reason", reason)
        original = await self.show(delivery_id)
        self._allowed("resend", original)
        content = await self._store.content(delivery_id)
        if content is None or not content.payload:
            raise NotAllowed(f"cannot resend delivery {delivery_id}: its payload is gone")
        clones = await self._store.count(Query(clone_of=delivery_id))
        new = transitions.clone(
            original,
            content,
            plan=self._plan(original),
            new_id=self._process.new_id(),
            source=RESEND_SOURCE,
            key=key or f"resend:{delivery_id}:{sum(clones.values()) + 1}",
            now_ms=self._clock.now_ms(),
        )
        facts = [
            self._audit_fact("resend", delivery_id, actor, reason, clone=new.delivery.id),
            self._audit_fact("resend", new.delivery.id, actor, reason, original=delivery_id),
        ]
        [answer] = await self._store.add([replace(new, facts=tuple(facts))])
        if isinstance(answer, Added):
            self._tell([Transitioned("resend", new.delivery, None, (), self._clock.now_ms())])
            return new.delivery
        return await self.show(answer.delivery_id)

    async def annotate(self, delivery_id: str, *, actor: str, note: str) -> None:
        _demand("actor", actor)
        _demand("note", note)
        self._allowed("annotate", await self.show(delivery_id))
        await self._store.save([], [self._audit_fact("annotate", delivery_id, actor, note)])

    async def park(self, route: str, *, actor: str, reason: str) -> None:
        """Stop a route by hand; nothing of it is tried until it is unparked."""
        self._route(route)
        _demand("actor", actor)
        _demand("reason", reason)
        await self._store.save([], [self._audit_fact("park", f"route:{route}", actor, reason)])
        await self._parking.park(route, actor=actor, reason=reason)

    async def unpark(self, route: str, *, actor: str, reason: str) -> None:
        self._route(route)
        _demand("actor", actor)
        _demand("reason", reason)
        await self._store.save([], [self._audit_fact("unpark", f"route:{route}", actor, reason)])
        await self._parking.unpark(route)

    async def _apply(
        self,
        verb: Verb,
        delivery_id: str,
        change_for: Callable[[Delivery], Change],
        actor: str,
        reason: str,
        *,
        cycle: int | None = None,
    ) -> Delivery:
        _demand("actor", actor)
        _demand("reason", reason)
        for _ in range(CONTENTION_TRIES):
            before = await self.show(delivery_id)
            self._allowed(verb, before)
            # What was meant is the cycle first seen: two clicks have one effect (I21).
            cycle = cycle or before.cycle
            _same_cycle(verb, before, cycle)
            change = change_for(before)
            audit = self._audit_fact(verb, delivery_id, actor, reason, was=before.state)
            [saved] = await self._store.save([replace(change, facts=(*change.facts, audit))])
            if saved:
                now_ms = self._clock.now_ms()
                self._tell([Transitioned(verb, change.delivery, before, change.ended, now_ms)])
                return replace(change.delivery, version=before.version + 1)
        raise NotAllowed(f"cannot {verb} delivery {delivery_id}: it is being changed by others")

    async def _checked(
        self, verb: Verb, delivery_id: str, actor: str, reason: str, cycle: int | None
    ) -> Delivery:
        """The delivery, if this verb may be used on it at all."""
        _demand("actor", actor)
        _demand("reason", reason)
        delivery = await self.show(delivery_id)
        self._allowed(verb, delivery)
        if delivery.state not in transitions.EDGES[verb].sources:
            raise NotAllowed(f"cannot {verb} delivery {delivery_id}: it is {delivery.state}")
        _same_cycle(verb, delivery, cycle)
        return delivery

    async def _replay_children(
        self, parent: Delivery, actor: str, reason: str, generation: int | None
    ) -> None:
        """Replaying a parent replays its failed children."""
        if not parent.fanned_out:
            return
        query = Query(parent_id=parent.id, facets=(Facet(state="failed"),))
        cursor: Cursor | None = None
        while True:
            page = await self._store.page(query, cursor, limit=200)
            for child in page.items:
                await self._replay_one(child, actor, reason, generation)
            cursor = page.next
            if cursor is None:
                return

    async def _reopen_parent(
        self, child: Delivery, actor: str, reason: str, generation: int | None
    ) -> None:
        """A failed parent looks again when a child of it was mended."""
        if child.parent_id is None:
            return
        parent = await self._store.get(child.parent_id)
        if parent is not None and parent.state == "failed":
            await self._replay_one(parent, actor, reason, generation)

    async def _replay_one(
        self, delivery: Delivery, actor: str, reason: str, generation: int | None
    ) -> None:
        change = self._replay_change(delivery, actor, reason, generation)
        audit = self._audit_fact("replay", delivery.id, actor, reason, was=delivery.state)
        await self._store.save([replace(change, facts=(audit,))])

    def _replay_change(
        self, delivery: Delivery, actor: str, reason: str, generation: int | None
    ) -> Change:
        relane = self._route(delivery.route).relane
        lane = None
        if generation is not None and relane is not None:
            lane = relane(delivery, generation)
        return transitions.replay(
            delivery,
            actor=actor,
            reason=reason,
            now_ms=self._clock.now_ms(),
            generation=generation,
            lane=lane,
        )

    def _timed(self, transition: Callable[..., Change]) -> Callable[[Delivery], Change]:
        return lambda delivery: transition(delivery, now_ms=self._clock.now_ms())

    def _plan(self, delivery: Delivery) -> Plan:
        return self._route(delivery.route).plan_of(delivery)

    def _route(self, name: str) -> Route:
        route = self._routes.get(name)
        if route is None:
            raise NotFound(f"no route {name!r}")
        return route

    def _allowed(self, verb: Verb, delivery: Delivery) -> None:
        if verb not in self._route(delivery.route).verbs:
            raise NotAllowed(f"route {delivery.route!r} does not offer {verb}")

    def _audit_fact(self, verb: str, subject: str, actor: str, reason: str, **more: str) -> Fact:
        now_ms = self._clock.now_ms()
        value: FactValue = {"verb": verb, "actor": actor, "reason": reason, **more}
        # The random end keeps two verbs of one millisecond apart.
        unique = self._process.dice.entropy(4).hex()
        return Fact(AUDIT, f"{subject}/{now_ms:015d}-{unique}", now_ms, value)


def _same_cycle(verb: str, delivery: Delivery, cycle: int | None) -> None:
    if cycle is not None and delivery.cycle != cycle:
        raise NotAllowed(
            f"cannot {verb} delivery {delivery.id}: it is in cycle {delivery.cycle}, not {cycle}"
        )


def _current(delivery: Delivery) -> list[Attempt]:
    if delivery.state not in ("pending", "in_flight"):
        return []
    running = delivery.state == "in_flight"
    return [
        Attempt(
            delivery_id=delivery.id,
            number=delivery.attempts_ended + 1,
            stage=delivery.stage,
            status="running" if running else "scheduled",
            cycle=delivery.cycle,
            phase=delivery.phase,
            scheduled_for_ms=None if running else delivery.due_at_ms,
            started_at_ms=delivery.claimed_at_ms,
            holder=delivery.holder,
        )
    ]


def _demand(field: str, text: str) -> None:
    if not text.strip():
        raise InvalidRequest(field, "must not be empty")
    if len(text) > MAX_TEXT_CHARS:
        raise InvalidRequest(field, f"is longer than {MAX_TEXT_CHARS} characters")
