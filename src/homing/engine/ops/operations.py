"""The operator's verbs, over the same transitions as everything else."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from homing.domain import transitions
from homing.domain.delivery import Change, Delivery, Fact
from homing.domain.errors import InvalidRequest, NotAllowed
from homing.domain.message import Message
from homing.engine.intake.preparing import prepare
from homing.engine.intake.request import Request
from homing.engine.intake.request_checks import plain_message
from homing.engine.ops.children import Children
from homing.engine.ops.reader import Reader
from homing.engine.ops.search import FORMER_RECIPIENT, RESEND_SOURCE
from homing.engine.ops.verbs import VERBS, Verb
from homing.engine.ops.writer import Signed, Writer, checked_text, signed
from homing.engine.process.liveness import Liveness
from homing.engine.process.pausing import Pausing
from homing.engine.process.process import Process
from homing.engine.route import Route
from homing.ports import Facet, Query, Transitioned


class Operations(Reader):
    """What operators read, and their verbs. Each verb stores who acts (`actor`) and why (`reason`),
    and returns the delivery after it."""

    def __init__(
        self,
        process: Process,
        pausing: Pausing,
        liveness: Liveness,
        routes: Mapping[str, Route],
        tell: Callable[[Sequence[Transitioned]], None],
    ) -> None:
        super().__init__(process, pausing, liveness, routes)
        self._process = process
        self._writer = Writer(process, routes, self.program, self.no_route, tell)
        self._children = Children(process, self._writer)

    async def note_access(self, verb: str, subject: str, *, actor: str, reason: str) -> None:
        """Record who changed the access of a person or a token (`user:ann`, `token:shop`)."""
        await self._writer.note(verb, subject, signed(actor, reason))

    async def use(
        self, verb: Verb, delivery_id: str, *, actor: str, reason: str, **arguments: Any
    ) -> Delivery:
        """The method of this name, for callers that read the table of verbs. Returns the delivery
        after it, or the new one that it made."""
        row = VERBS[verb]
        messages = [arguments.pop(each.name) for each in row.arguments if each.kind == "email"]
        act: Callable[..., Awaitable[Delivery]] = getattr(self, verb)
        return await act(
            delivery_id, *messages, actor=actor, **{row.reason_is: reason}, **arguments
        )

    def predict(self, verb: Verb, delivery: Delivery) -> Delivery:
        """The delivery after a bulk verb; NotAllowed if the verb would be refused."""
        changes: dict[Verb, Callable[[Delivery], Change]] = {
            "replay": lambda now: self._children.replayed(now, Signed("", ""), None),
            "dismiss": self._children.dismissed,
            "cancel": self._children.cancelled,
            "restore": self._children.restored,
        }
        if verb not in changes:
            raise InvalidRequest("verb", f"must be one of {', '.join(changes)}")
        self._writer.check(verb, delivery, None)
        return changes[verb](delivery).delivery

    async def replay(
        self,
        delivery_id: str,
        *,
        actor: str,
        reason: str,
        generation: int | None = None,
        cycle: int | None = None,
        allows_earlier: bool = False,
    ) -> Delivery:
        """In place, from the failed stage, with a new budget.

        `generation` of an event is its current one or a later one: older code cannot get it back,
        unless the caller `allows_earlier` ones.
        With `cycle`, the one that the operator saw, a late click does nothing.
        """
        by = signed(actor, reason)
        before = await self._writer.checked("replay", delivery_id, cycle)
        if generation is not None and generation < before.generation and not allows_earlier:
            present = f"{delivery_id} is of generation {before.generation}"
            raise InvalidRequest("generation", f"{present}: state that one or a later one")

        def change(now: Delivery) -> Change:
            return self._children.replayed(now, by, generation)

        return self._delivery(await self._try_again("replay", before, change, by, generation))

    async def restart(
        self, delivery_id: str, *, actor: str, reason: str, cycle: int | None = None
    ) -> Delivery:
        """From the first stage, results dropped."""
        by = signed(actor, reason)
        before = await self._writer.checked("restart", delivery_id, cycle)

        def change(now: Delivery) -> Change:
            plan, now_ms = self._writer.plan(now), self._clock.now_ms()
            return transitions.restart(now, plan=plan, actor=actor, reason=reason, now_ms=now_ms)

        return self._delivery(await self._try_again("restart", before, change, by, None))

    async def dismiss(
        self, delivery_id: str, *, actor: str, reason: str, cycle: int | None = None
    ) -> Delivery:
        """Close a dead letter: it will not be tried again. `restore` undoes it."""
        by = signed(actor, reason)
        before = await self._writer.checked("dismiss", delivery_id, cycle)
        after = await self._writer.use("dismiss", before, self._children.dismissed, by)
        return self._delivery(after)

    async def restore(self, delivery_id: str, *, actor: str, reason: str) -> Delivery:
        """Undo `dismiss` or `cancel`."""
        by = signed(actor, reason)
        before = await self._writer.checked("restore", delivery_id)

        # Children first: a worker that finds the parent due must see them open again.
        if before.fanned_out and before.failed_because is None:
            await self._children.restore(before, by)
        after = await self._writer.use("restore", before, self._children.restored, by)
        return self._delivery(after)

    async def cancel(self, delivery_id: str, *, actor: str, reason: str) -> Delivery:
        """Withdraw an open delivery. If it may have been sent, it becomes uncertain instead."""
        by = signed(actor, reason)
        before = await self._writer.checked("cancel", delivery_id)
        after = await self._writer.use(
            "cancel",
            before,
            self._children.cancelled,
            by,
            children=await self._children.first_to_cancel(before),
            child_change_for=self._children.cancelled_if_free,
        )
        if before.fanned_out:
            await self._children.cancel(after, by)
        return self._delivery(after)

    async def confirm(
        self, delivery_id: str, *, actor: str, reason: str, evidence: str
    ) -> Delivery:
        """An uncertain delivery was accepted; the evidence is stored."""
        checked_text("evidence", evidence)
        by = signed(actor, reason)
        before = await self._writer.checked("confirm", delivery_id)

        def change(now: Delivery) -> Change:
            plan, now_ms = self._writer.plan(now), self._clock.now_ms()
            return transitions.confirm(now, plan=plan, evidence=evidence, now_ms=now_ms)

        confirmed = await self._writer.use("confirm", before, change, by)
        await self._children.look_again(confirmed, by, None)
        return self._delivery(confirmed)

    async def amend(
        self,
        delivery_id: str,
        payload: bytes | Message,
        *,
        actor: str,
        reason: str,
        addresses: tuple[str, ...] | None = None,
    ) -> Delivery:
        """Replace what is delivered by a corrected message; the old one stays readable.

        A message is checked like a new one, and its envelope replaces the old one. Bytes are
        stored unchecked, with `addresses` as the new envelope if it changes.
        """
        by = signed(actor, reason)
        before = await self._writer.checked("amend", delivery_id)
        if not isinstance(payload, bytes):
            payload, addresses = self._amended(before, payload)

        def change(now: Delivery) -> Change:
            plan, now_ms = self._writer.plan(now), self._clock.now_ms()
            done = transitions.amend(now, payload, plan=plan, now_ms=now_ms, addresses=addresses)
            left = {r.address for r in now.recipients} - {
                r.address for r in done.delivery.recipients
            }
            former = [Fact(FORMER_RECIPIENT, f"{each}/{now.id}", now_ms) for each in sorted(left)]
            return replace(done, facts=(*done.facts, *former))

        amended = await self._writer.use("amend", before, change, by)
        if before.fanned_out:
            await self._children.cancel_earlier(amended, by)
        return self._delivery(amended)

    def _amended(self, before: Delivery, message: Message) -> tuple[bytes, tuple[str, ...]]:
        message = plain_message(message)
        request = Request(message=message, key=before.key, generation=before.generation)
        [new] = prepare(self._process, [(self._writer.route(before.route), request)])
        if new.delivery.queue != before.queue and before.parent_id is None:
            raise InvalidRequest(
                "message",
                f"is for {new.delivery.queue!r}; delivery {before.id} is {before.queue!r}",
            )
        return new.payload, tuple(recipient.address for recipient in new.delivery.recipients)

    async def resend(
        self, delivery_id: str, *, actor: str, reason: str, key: str | None = None
    ) -> Delivery:
        """A deliberate second delivery: a clone with its own id, key and history."""
        by = signed(actor, reason)
        original = await self._writer.checked("resend", delivery_id)
        content = await self._store.content(delivery_id)
        if content is None or not content.payload:
            raise NotAllowed(f"cannot resend delivery {delivery_id}: its payload is gone")
        clones = await self._store.count(Query(clone_of=delivery_id))
        new = transitions.clone(
            original,
            content,
            plan=self._writer.plan(original),
            new_id=self._process.new_id(),
            source=RESEND_SOURCE,
            key=key or f"resend:{delivery_id}:{sum(clones.values()) + 1}",
            now_ms=self._clock.now_ms(),
        )
        facts = (
            self._writer.audit_fact("resend", delivery_id, by, clone=new.delivery.id),
            self._writer.audit_fact("resend", new.delivery.id, by, original=delivery_id),
        )
        return self._delivery(await self._writer.add("resend", replace(new, facts=facts)))

    async def annotate(self, delivery_id: str, *, actor: str, note: str) -> Delivery:
        """Add a note to its history. Returns the delivery, which is unchanged."""
        by = signed(actor, note, named="note")
        delivery = await self._writer.checked("annotate", delivery_id)
        await self._writer.note("annotate", delivery_id, by)
        return self._delivery(await self._with_children(delivery))

    async def pause(self, route: str, *, actor: str, reason: str) -> int:
        """Stop a route; nothing of it is tried until it is resumed.

        All processes know of it within a second (`pausing.KNOWN_WITHIN_S`). Returns how many are
        claimed: those that are being sent are finished, the others are released.
        """
        self._writer.route(route)
        await self._writer.note("pause", f"route:{route}", signed(actor, reason))
        await self._pausing.pause(route, actor=actor, reason=reason)
        under_way = Query(route=route, facets=(Facet(state="in_flight"),))
        return sum((await self._store.count(under_way)).values())

    async def resume(self, route: str, *, actor: str, reason: str) -> None:
        """Start a paused route again."""
        self._writer.route(route)
        await self._writer.note("resume", f"route:{route}", signed(actor, reason))
        await self._pausing.resume(route)

    async def _try_again(
        self,
        verb: Verb,
        before: Delivery,
        change: Callable[[Delivery], Change],
        by: Signed,
        generation: int | None,
    ) -> Delivery:
        # Children first: a worker that finds the parent due must not see them failed still.
        if before.fanned_out:
            await self._children.replay(before, by, generation)
        after = await self._writer.use(verb, before, change, by)
        await self._children.look_again(after, by, generation)
        return after
