"""A delivery that this process holds: what a step sees of the attempt it runs in."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Protocol

from msgspec import Struct
from msgspec.structs import replace

from homing.domain import identity, transitions
from homing.domain.delivery import Change, Content, Delivery, Key, New, Receipt, Recipient
from homing.domain.failure import Failure
from homing.domain.policy import Plan, Stage
from homing.engine.commit.settlement import PendingSave
from homing.engine.process.process import Process
from homing.engine.route import Route
from homing.engine.work.permits import RoutePermits, give_permits_back
from homing.engine.work.steps import Packed
from homing.ports import Claimed

# A commit starts only if its whole time limit, and this, still fit into the lease.
COMMIT_MARGIN_S = 1.0
# With less than this to spare at the mark, the lease is made longer together with it.
SPARE_LEASE_S = 15.0


class Owner(Protocol):
    """The part of this process that has claimed the work and renews its lease."""

    @property
    def has_more(self) -> bool:
        """Whether more work is waiting for its turn."""

    def began(self, works: Sequence[ClaimedWork]) -> None: ...

    def put_back(self, works: Sequence[ClaimedWork]) -> None:
        """Nothing was done about them: they are the next to be tried."""

    def ended(self, works: Sequence[ClaimedWork]) -> None: ...


def put_back(works: Sequence[ClaimedWork], batch: list[ClaimedWork]) -> None:
    """Put them back into the inbox; they keep their claims and no permits."""
    if not works:
        return
    left = set(works)
    batch[:] = [work for work in batch if work not in left]
    give_permits_back(works)
    if works[0].owner is not None:
        works[0].owner.put_back(works)


def in_time(works: Sequence[ClaimedWork]) -> list[ClaimedWork]:
    """Of marked works of one process and batch, those whose lease lasts for a whole send.

    After a pause without a heartbeat, which others may take for death, there are none.
    """
    if not works or not works[0].process.liveness.was_fresh_since(works[0].marked_at_s):
        return []
    now_s = works[0].process.clock.steady_s()
    return [
        work for work in works if work.lease_end_s - work.stage.timeout_s - now_s > COMMIT_MARGIN_S
    ]


def end_all(works: Sequence[ClaimedWork]) -> None:
    """The attempts of works of one owner are over, whatever their outcome."""
    ending = [work for work in works if not work.is_over]
    if not ending:
        return
    for work in ending:
        work.is_over = True
    give_permits_back(ending)
    if ending[0].owner is not None:
        ending[0].owner.ended(ending)


def release(work: ClaimedWork) -> None:
    """Nothing was done about it: it is pending again, for any process."""
    process = work.process
    change = transitions.release(
        work.delivery, plan=work.plan, now_ms=process.clock.now_ms(), roll=process.rng.roll()
    )
    process.saves.put(PendingSave("release", change, work.delivery, work.lease_end_s))


class ClaimedWork(Struct, eq=False):
    """One claimed delivery with its plan and stage, and the permits that it holds.

    The version moves on with every write of its owner. `settled` names the transition that has
    ended the attempt; it is None as long as there is none, or if the claim was lost.
    """

    process: Process
    route: Route
    permits: RoutePermits
    plan: Plan
    stage: Stage
    # False: the plan no longer has the stage of the delivery.
    is_stage_known: bool
    delivery: Delivery
    content: Content
    lease_end_s: float
    # Bytes of its content as it was claimed.
    size: int = 0
    # Evidence that it was accepted before, found by the claim.
    receipt: Receipt | None = None
    owner: Owner | None = None
    is_probe: bool = False
    # What it sends, made while it waited for its turn, and the delivery that it was made of.
    packed: tuple[Delivery, Packed | Failure] | None = None
    # Whether its handler has handled the event before; None: not asked yet.
    is_handled: bool | None = None
    # What is on its way to the store carries the lease of its time: a renewal would be undone.
    is_being_written: bool = False
    # When its mark was asked for; a send without a mark has no time.
    marked_at_s: float = math.inf
    is_over: bool = False
    lost: bool = False
    settled: str | None = None
    has_attempt_permit: bool = False
    has_send_permit: bool = False
    suspect_permits: int = 0

    @property
    def now_ms(self) -> int:
        return self.process.clock.now_ms()

    def marking(self, frozen: Mapping[str, bytes], now_ms: int, now_s: float) -> PendingSave:
        """The durable mark, to be written: with a new lease only where the old one grows short."""
        self.is_being_written = True
        # What the lease has beyond the whole time of the stage.
        is_short = self.lease_end_s - self.stage.timeout_s - now_s < SPARE_LEASE_S
        change = transitions.mark_committing(
            self.delivery,
            now_ms=now_ms,
            frozen=frozen,
            lease_until_ms=self.process.lease_until_ms(self.route) if is_short else None,
        )
        return PendingSave("mark_committing", change, self.delivery, self.lease_end_s)

    def marked(self, change: Change, asked_at_s: float) -> None:
        """It is stored; a new lease counts from when it was asked for."""
        self.is_being_written = False
        self.marked_at_s = asked_at_s
        if change.delivery.due_at_ms != self.delivery.due_at_ms:
            self.lease_end_s = asked_at_s + self.route.lease_s
        self.wrote(change)

    def wrote(self, change: Change) -> None:
        """The change is stored, and the work goes on from there."""
        self.delivery = replace(change.delivery, version=change.delivery.version + 1)
        results = {} if change.drop_results else self.content.results
        if change.results:
            self.content = Content(self.content.payload, {**results, **change.results})
        if self.delivery.stage != self.stage.name:
            self.stage, self.is_stage_known = stage_in(self.plan, self.delivery.stage)

    def end(self) -> None:
        """The attempt is over, whatever its outcome."""
        end_all((self,))

    def child(  # noqa: PLR0913 - a child may differ from its parent in each of these
        self,
        *,
        payload: bytes,
        queue: str = "",
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
            id=self.process.new_id(),
            route=parent.route,
            queue=self.route.queue(queue, parent.generation),
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
        name = intent or f"{parent.id}/{child.fingerprint}/{child.queue}"
        name = identity.child_intent(parent, name)
        taken = identity.intent_key(parent.route, name)
        key = Key(identity.INTENT_SOURCE, taken, child.id, child.fingerprint)
        return New(child, payload=payload, keys=(key,))


def stage_in(plan: Plan, name: str) -> tuple[Stage, bool]:
    """The stage, and whether the plan still has it."""
    for stage in plan.stages:
        if stage.name == name:
            return stage, True
    return Stage(name=name), False


def works_of(
    process: Process,
    route: Route,
    permits: RoutePermits,
    claimed: Sequence[Claimed],
    claimed_at_s: float,
    owner: Owner | None = None,
) -> list[ClaimedWork]:
    """Plan and stage are looked up once for all of one queue."""
    lease_end_s = claimed_at_s + route.lease_s
    known: dict[tuple[str, str, str], tuple[Plan, Stage, bool]] = {}
    works: list[ClaimedWork] = []
    for one in claimed:
        delivery, content = one.delivery, one.content
        course = delivery.queue, delivery.plan, delivery.stage
        if course not in known:
            plan = route.plan_of(delivery)
            known[course] = (plan, *stage_in(plan, delivery.stage))
        plan, stage, is_stage_known = known[course]
        size = _size(content) if content.results else len(content.payload)
        works.append(
            ClaimedWork(
                process,
                route,
                permits,
                plan,
                stage,
                is_stage_known,
                delivery,
                content,
                lease_end_s,
                size,
                one.receipt,
                owner,
            )
        )
    return works


def _size(content: Content) -> int:
    return len(content.payload) + sum([len(result) for result in content.results.values()])
