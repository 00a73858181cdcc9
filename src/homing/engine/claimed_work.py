"""A delivery in this process's hands: what a step sees of the attempt it runs in."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from msgspec.structs import replace

from homing.domain import identity, transitions
from homing.domain.delivery import Change, Content, Delivery, Key, New, Receipt, Recipient
from homing.engine.save_batcher import PendingSave

if TYPE_CHECKING:
    from homing.engine.attempt import AttemptRunner
    from homing.engine.route import Route

# No commit may start unless its whole time, and this, still fit into the lease (I12).
COMMIT_MARGIN_S = 1.0
# With less than this to spare at the mark, the lease is made longer together with it.
SPARE_LEASE_S = 15.0


class DoubtSettled(Exception):
    """While this attempt was being prepared, an earlier one turned out to be accepted."""

    def __init__(self, receipt: Receipt) -> None:
        super().__init__("an earlier attempt was accepted")
        self.receipt = receipt


class ClaimLost(Exception):
    """Somebody else owns the delivery now: stop, and write nothing."""


class ClaimedWork:
    """One claimed delivery. The version moves on with every write of its owner."""

    __slots__ = (
        "_attempts",
        "content",
        "delivery",
        "is_being_marked",
        "is_probe",
        "lease_end_s",
        "lost",
        "permit",
        "route",
    )

    def __init__(
        self,
        attempts: AttemptRunner,
        route: Route,
        delivery: Delivery,
        content: Content,
        claimed_at_s: float,
    ) -> None:
        self._attempts = attempts
        self.route = route
        self.delivery = delivery
        self.content = content
        self.lease_end_s = claimed_at_s + route.lease_s
        self.lost = False
        self.is_probe = False
        # A mark on its way carries the lease of its time: renewed meanwhile, it would be undone.
        self.is_being_marked = False
        self.permit = False

    @property
    def now_ms(self) -> int:
        return self._attempts.process.clock.now_ms()

    async def mark_committing(self, frozen: Mapping[str, bytes]) -> bool:
        """Write the durable mark; False: the claim was lost or its time is over, do not send."""
        await self._attempts.process.refresh_if_stale()
        if self.delivery.maybe_sent:
            # An earlier owner may have learnt the truth since we looked (P8).
            late = await self._attempts.late_receipt(self.delivery)
            if late is not None:
                raise DoubtSettled(late)
        # Before the mark: outcomes and marks are written in the order in which they are handed
        # over, so whoever had the permit before is written by then.
        await self._attempts.process.unsaved_sends.take()
        self.permit = True
        asked_at_s = self._attempts.process.clock.steady_s()
        marking = self.marking(frozen)
        if self.lost or not await self._attempts.process.saves.write(marking):
            self.lost = True
            return False
        self.marked(marking.change, asked_at_s)
        return self.may_commit

    def marking(self, frozen: Mapping[str, bytes]) -> PendingSave:
        """The durable mark, to be written: with a new lease only where the old one grows short."""
        self.is_being_marked = True
        clock = self._attempts.process.clock
        is_short = self._spare_s(clock.steady_s()) < SPARE_LEASE_S
        change = transitions.mark_committing(
            self.delivery,
            now_ms=clock.now_ms(),
            frozen=frozen,
            lease_until_ms=self._attempts.process.lease_until_ms(self.route) if is_short else None,
        )
        return PendingSave("mark_committing", change, self.delivery, self.lease_end_s)

    def marked(self, change: Change, asked_at_s: float) -> None:
        """It is stored; a new lease counts from when it was asked for."""
        self.is_being_marked = False
        if change.delivery.due_at_ms != self.delivery.due_at_ms:
            self.lease_end_s = asked_at_s + self.route.lease_s
        self.wrote(change)

    @property
    def may_commit(self) -> bool:
        """Whether the time of a whole send still fits into the lease.

        After a pause without a heartbeat others may have ended the lease before its time.
        """
        process = self._attempts.process
        return self._spare_s(process.clock.steady_s()) > COMMIT_MARGIN_S and process.is_fresh()

    def _spare_s(self, now_s: float) -> float:
        """What the lease has beyond the whole time of the stage."""
        timeout_s = self.route.plan_of(self.delivery).stage(self.delivery.stage).timeout_s
        return self.lease_end_s - timeout_s - now_s

    def give_permit_back(self) -> None:
        if self.permit:
            self.permit = False
            self._attempts.process.unsaved_sends.give_back()

    async def write(self, name: str, change: Change) -> bool:
        """Save a change and go on holding; False and `lost` when somebody else has it."""
        settlement = PendingSave(name, change, self.delivery, self.lease_end_s)
        if not await self._attempts.process.saves.write(settlement):
            self.lost = True
            return False
        self.wrote(change)
        return True

    def wrote(self, change: Change) -> None:
        """It is stored, and the delivery goes on from there."""
        self.delivery = replace(change.delivery, version=change.delivery.version + 1)
        results = {} if change.drop_results else self.content.results
        if change.results:
            self.content = Content(self.content.payload, {**results, **change.results})

    def child(  # noqa: PLR0913 - a child may differ from its parent in each of these
        self,
        *,
        payload: bytes,
        lane: str = "",
        plan: str = "",
        stage: str | None = None,
        topic: str | None = None,
        intent: str | None = None,
        recipients: tuple[str, ...] = (),
        required: bool = True,
        metadata: Mapping[str, str] | None = None,
    ) -> New:
        """A delivery of its own under this one, for a step that fans out."""
        parent, now_ms = self.delivery, self.now_ms
        child = Delivery(
            id=self._attempts.process.new_id(),
            route=parent.route,
            lane=self.route.lane(lane, parent.generation),
            plan=plan,
            stage=stage or parent.stage,
            created_at_ms=now_ms,
            updated_at_ms=now_ms,
            due_at_ms=now_ms,
            source=parent.source,
            key=parent.key,
            topic=topic or parent.topic,
            priority=parent.priority,
            generation=parent.generation,
            intent=None if intent is None else identity.child_intent(parent, intent),
            fingerprint=identity.fingerprint(payload),
            recipients=tuple(Recipient(address) for address in recipients),
            parent_id=parent.id,
            parent_payload_no=parent.payload_no,
            required=required,
            expires_at_ms=parent.expires_at_ms,
            metadata={**parent.metadata, **(metadata or {})},
        )
        # Without an intent of its own, a child is one of a kind under its parent: fanning out
        # again after a crash or a restart finds it and makes no second one.
        name = intent or f"{parent.id}/{child.fingerprint}/{child.lane}"
        name = identity.child_intent(parent, name)
        taken = identity.intent_key(parent.route, name)
        key = Key(identity.INTENT_SOURCE, taken, child.id, child.fingerprint)
        return New(child, payload=payload, keys=(key,))
