"""Every change of a delivery's state, as pure functions. No other code changes state.

Each transition declares from which states it may start and in which it may end; the declared
table is enforced at every call and drawn in docs/STATE_MACHINE.md. Stores apply one of them by
themselves, `claim`, and nothing else.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Concatenate, ParamSpec

from msgspec import Struct
from msgspec.structs import replace

from homing.domain import recipients
from homing.domain.delivery import (
    TERMINAL_STATES,
    Attempt,
    AttemptStatus,
    Change,
    Content,
    Cycle,
    Delivery,
    DoubtWindow,
    FailedBecause,
    Key,
    New,
    Receipt,
    Recipient,
    State,
)
from homing.domain.errors import NotAllowed
from homing.domain.failure import CHILDREN_FAILED, Failure, Refusal
from homing.domain.policy import Plan

P = ParamSpec("P")


class Edge(Struct, frozen=True):
    """One row of the state machine."""

    name: str
    sources: tuple[State, ...]
    targets: tuple[State, ...]
    meaning: str


EDGES: dict[str, Edge] = {}

_GRAVEST_FIRST: tuple[FailedBecause, ...] = (
    "uncertain",
    "exhausted",
    "rejected",
    "poison",
    "expired",
)


def _transition(
    *, sources: tuple[State, ...], targets: tuple[State, ...]
) -> Callable[
    [Callable[Concatenate[Delivery, P], Change]], Callable[Concatenate[Delivery, P], Change]
]:
    def declare(
        function: Callable[Concatenate[Delivery, P], Change],
    ) -> Callable[Concatenate[Delivery, P], Change]:
        verb = function.__name__
        meaning = (function.__doc__ or "").strip().splitlines()[0]
        EDGES[verb] = Edge(verb, sources, targets, meaning)

        @functools.wraps(function)
        def checked(delivery: Delivery, /, *args: P.args, **kwargs: P.kwargs) -> Change:
            if delivery.state not in sources:
                raise NotAllowed(
                    f"cannot {verb.replace('_', ' ')} delivery {delivery.id}: it is"
                    f" {delivery.state}, not {' or '.join(sources)}"
                )
            change = function(delivery, *args, **kwargs)
            if change.delivery.state not in targets:
                raise AssertionError(f"{verb} may not lead to {change.delivery.state}")
            return change

        return checked

    return declare


@_transition(sources=("pending", "in_flight", "waiting"), targets=("in_flight",))
def claim(delivery: Delivery, *, holder: str, now_ms: int, lease_until_ms: int) -> Change:
    """A worker takes it; the one change that stores make by themselves."""
    return Change(
        replace(
            delivery,
            state="in_flight",
            holder=holder,
            due_at_ms=lease_until_ms,
            claimed_at_ms=now_ms,
            claims=delivery.claims + 1,
            version=delivery.version + 1,
        )
    )


@_transition(sources=("in_flight",), targets=("pending",))
def release(delivery: Delivery, *, plan: Plan, now_ms: int, roll: float) -> Change:
    """The holder gives it back untouched; that is no attempt and no crash of its own.

    What earlier holders left is noted first, so that their doubt is not given away with it.
    """
    if delivery.committing and delivery.claims <= 1:
        raise NotAllowed(f"cannot release delivery {delivery.id}: it may have been sent")
    if delivery.claims <= 1:
        return Change(_back_in_line(delivery, now_ms))
    noted = note_interruption(delivery, plan=plan, now_ms=now_ms, roll=roll)
    if noted.delivery.state == "pending":
        return noted
    return replace(noted, delivery=_back_in_line(noted.delivery, now_ms))


@_transition(sources=("in_flight",), targets=("in_flight",))
def end_lease(delivery: Delivery, *, now_ms: int) -> Change:
    """Its holder is dead or does not know of it: the lease has ended, by everybody's clock."""
    return Change(replace(delivery, due_at_ms=0, holder=None, updated_at_ms=now_ms))


@_transition(sources=("in_flight",), targets=("in_flight",))
def mark_committing(
    delivery: Delivery, *, now_ms: int, lease_until_ms: int, frozen: Mapping[str, bytes]
) -> Change:
    """The durable mark before the byte that may send: from here on a crash leaves doubt."""
    return Change(
        replace(
            delivery,
            committing=True,
            committed_at_ms=delivery.committed_at_ms or now_ms,
            due_at_ms=lease_until_ms,
            claims=1,
            updated_at_ms=now_ms,
        ),
        results=dict(frozen),
    )


@_transition(sources=("in_flight",), targets=("in_flight", "pending"))
def note_interruption(delivery: Delivery, *, plan: Plan, now_ms: int, roll: float) -> Change:
    """The next owner records that earlier holders ended without an outcome.

    Where interrupted attempts count, the schedule goes on as after any failed one.
    """
    lost_claims = max(delivery.claims - 1, 0)
    may_count = delivery.phase == "worker" or plan.inline_counts
    counts = may_count and (delivery.committing or plan.interrupted_counts)
    # An owner without budget never called the step; its end costs nothing.
    counts = counts and (delivery.committing or overspent(delivery, plan) is None)
    failure = Failure(
        "interrupted",
        detail="the worker ended before the outcome was recorded",
        maybe_sent=delivery.committing,
    )
    # Whose claim and when is gone with them; the new owner's own claim is another story.
    after = replace(delivery, holder=None, claimed_at_ms=None)
    ended: list[Attempt] = []
    for nth in range(lost_claims):
        # The oldest lost claim is the one that ran; the others ended before they began, since
        # each owner notes the loss of the one before it first.
        oldest = nth == 0
        ended.append(
            _attempt(
                after,
                "interrupted",
                now_ms,
                counted=counts and oldest,
                failure=failure if oldest else replace(failure, maybe_sent=False),
            )
        )
        after = replace(
            after,
            attempt_no=after.attempt_no + 1,
            attempts=after.attempts + int(counts and oldest),
            phase="worker",
        )
    after = _note_failure(after, failure, now_ms)
    after = replace(after, holder=delivery.holder, claimed_at_ms=delivery.claimed_at_ms)
    after = replace(
        after,
        # What waited in a worker's inbox did not crash it: a crash is proved by the mark, or by
        # the note that an owner writes right before it begins.
        crashes=delivery.crashes + int(delivery.begun or delivery.committing),
        begun=True,
        claims=1,
        committing=False,
        phase="worker",
        updated_at_ms=now_ms,
    )
    if may_count and plan.interrupted_counts and overspent(after, plan) is None:
        due_at_ms = _next_attempt_ms(after, failure, plan, now_ms, roll)
        after = _let_go(after, due_at_ms=due_at_ms, now_ms=now_ms)
    return Change(after, ended=tuple(ended))


@_transition(sources=("in_flight",), targets=("pending", "in_flight"))
def advance(
    delivery: Delivery,
    *,
    plan: Plan,
    now_ms: int,
    result: bytes | None = None,
    keep_until_ms: int | None = None,
) -> Change:
    """A stage that is not the last has finished; its result is kept and the next one is due.

    With `keep_until_ms` the holder keeps the claim, to go on at once in the same call.
    """
    stage = plan.stage(delivery.stage)
    following = plan.stage_after(delivery.stage)
    if following is None:
        raise AssertionError(f"stage {delivery.stage!r} is the last one")
    ended = () if stage.quiet else (_attempt(delivery, "done", now_ms),)
    after = _let_go(delivery, due_at_ms=now_ms, now_ms=now_ms)
    if keep_until_ms is not None:
        after = replace(
            after,
            state="in_flight",
            holder=delivery.holder,
            due_at_ms=keep_until_ms,
            claims=1,
            phase=delivery.phase,
        )
    after = replace(
        after,
        stage=following.name,
        attempt_no=delivery.attempt_no + len(ended),
        attempts=0,
        crashes=0,
        fanned_out=False,
        failure=None,
        first_failed_at_ms=None,
        last_failed_at_ms=None,
        maybe_sent_at_ms=None,
        doubt_waived=False,
    )
    return Change(after, ended=ended, results=_kept(delivery, result))


@_transition(sources=("in_flight",), targets=("delivered", "failed", "pending"))
def succeed(
    delivery: Delivery,
    *,
    plan: Plan,
    now_ms: int,
    roll: float,
    receipt: Receipt | None = None,
    refused: Mapping[str, Refusal] | None = None,
    result: bytes | None = None,
) -> Change:
    """The last stage was accepted; recipients refused apart keep it from being delivered."""
    refused = refused or {}
    answered = recipients.accept_open(delivery.recipients, refused)
    counts = _counts(delivery, plan)
    evidence = _evidence(delivery, answered, _dated(receipt, now_ms))
    if recipients.left_to_try(answered, refused):
        after = replace(delivery, **evidence)
        deferred = recipients.summary(answered, permanent=False)
        return _failed(after, deferred, plan, now_ms, roll=roll, can_look=False)
    everybody = all(r.outcome == "accepted" for r in answered)
    failure = None if everybody else recipients.summary(answered, permanent=True)
    status: AttemptStatus = "done" if failure is None else "rejected"
    ended = _attempt(delivery, status, now_ms, counted=counts, failure=failure, receipt=receipt)
    evidence["attempt_no"] = delivery.attempt_no + 1
    evidence["attempts"] = delivery.attempts + int(counts)
    if failure is not None:
        after = _note_failure(replace(delivery, **evidence), failure, now_ms)
        return _dead(after, "rejected", plan, now_ms, ended=(ended,))
    kept = _kept(delivery, result)
    return _delivered(delivery, plan, now_ms, evidence, ended=(ended,), results=kept)


@_transition(sources=("in_flight",), targets=("delivered", "failed"))
def settle_found(delivery: Delivery, *, plan: Plan, now_ms: int, receipt: Receipt) -> Change:
    """Evidence shows that an attempt in doubt was accepted: no second send is made."""
    return _settle_by_evidence(delivery, plan, now_ms, _dated(receipt, now_ms))


@_transition(sources=("in_flight",), targets=("suppressed", "failed"))
def suppress(delivery: Delivery, failure: Failure, *, plan: Plan, now_ms: int) -> Change:
    """Skipped on purpose, by the provider or a rule; counted as a good end unless in doubt."""
    counts = _counts(delivery, plan)
    ended = _attempt(delivery, "suppressed", now_ms, counted=counts, failure=failure)
    after = replace(
        delivery,
        attempt_no=delivery.attempt_no + 1,
        attempts=delivery.attempts + int(counts),
        failure=failure,
    )
    if delivery.maybe_sent:
        return _dead(after, "uncertain", plan, now_ms, ended=(ended,))
    return _closing(Change(_ended(after, "suppressed", now_ms), ended=(ended,)))


@_transition(sources=("pending",), targets=("suppressed",))
def suppress_at_intake(delivery: Delivery, reason: str, *, now_ms: int) -> Change:
    """Skipped on purpose before it is stored: no attempt is ever made."""
    failure = Failure("suppressed", "suppress", detail=reason)
    return Change(replace(_ended(delivery, "suppressed", now_ms), failure=failure))


@_transition(sources=("in_flight",), targets=("pending", "failed"))
def fail(
    delivery: Delivery,
    failure: Failure,
    *,
    plan: Plan,
    now_ms: int,
    roll: float,
    can_look: bool = False,
) -> Change:
    """An attempt failed: try again by the policy, give it back to its route, or dead-letter it."""
    return _failed(delivery, failure, plan, now_ms, roll=roll, can_look=can_look)


def _failed(
    delivery: Delivery,
    failure: Failure,
    plan: Plan,
    now_ms: int,
    *,
    roll: float,
    can_look: bool,
) -> Change:
    disposition = failure.disposition
    if disposition == "route_fault":
        if plan.on_route_fault == "park":
            return _back_to_route(delivery, failure, now_ms)
        disposition = "reject" if plan.on_route_fault == "fail" else "retry"
    if disposition == "suppress":
        raise AssertionError("suppression is not a failure: use suppress()")

    status: AttemptStatus = "rejected" if disposition == "reject" else "failed"
    if status == "failed" and failure.error_class == "timed_out":
        status = "timed_out"
    counts = _counts(delivery, plan)
    ended = _attempt(delivery, status, now_ms, counted=counts, failure=failure)
    after = replace(
        _note_failure(delivery, failure, now_ms),
        attempt_no=delivery.attempt_no + 1,
        attempts=delivery.attempts + int(counts),
        crashes=0,
    )
    if disposition == "reject":
        return _dead(after, "rejected", plan, now_ms, ended=(ended,))
    retry = plan.stage(delivery.stage).retry
    spent = after.attempts >= (delivery.max_attempts or retry.max_attempts)
    # Out of budget but in doubt: one more claim, for the lookup alone, before any verdict.
    if spent and not (after.maybe_sent and can_look):
        return _dead(after, "exhausted", plan, now_ms, ended=(ended,))
    due_at_ms = _next_attempt_ms(after, failure, plan, now_ms, roll)
    return Change(_let_go(after, due_at_ms=due_at_ms, now_ms=now_ms), ended=(ended,))


def _next_attempt_ms(
    delivery: Delivery, failure: Failure, plan: Plan, now_ms: int, roll: float
) -> int:
    retry = plan.stage(delivery.stage).retry
    due_at_ms = now_ms + retry.delay_ms(delivery.attempts + 1, failure, roll)
    if delivery.expires_at_ms is None:
        return due_at_ms
    # At its expiry it is looked at again, to be dead-lettered in time.
    return min(due_at_ms, max(delivery.expires_at_ms, now_ms))


@_transition(sources=("in_flight",), targets=("failed",))
def give_up(delivery: Delivery, because: FailedBecause, *, plan: Plan, now_ms: int) -> Change:
    """No further attempt is allowed: expired, out of budget, in doubt on hold, or poison."""
    return _dead(delivery, because, plan, now_ms)


@_transition(sources=("in_flight",), targets=("pending",))
def await_evidence(delivery: Delivery, *, now_ms: int, due_at_ms: int) -> Change:
    """In doubt, and the provider cannot tell yet: ask again later. That is no attempt."""
    return Change(_let_go(delivery, due_at_ms=due_at_ms, now_ms=now_ms))


@_transition(sources=("in_flight",), targets=("waiting",))
def fan_out(
    delivery: Delivery, children: tuple[New, ...], *, now_ms: int, result: bytes | None = None
) -> Change:
    """One delivery becomes several: it waits until its children have ended."""
    after = replace(
        _let_go(delivery, due_at_ms=None, now_ms=now_ms), state="waiting", fanned_out=True
    )
    return Change(after, children=children, results=_kept(delivery, result))


@_transition(sources=("in_flight",), targets=("waiting",))
def keep_waiting(delivery: Delivery, *, now_ms: int) -> Change:
    """Looked at, but some children are still under way."""
    return Change(replace(_let_go(delivery, due_at_ms=None, now_ms=now_ms), state="waiting"))


@_transition(sources=("in_flight",), targets=("failed",))
def fail_with_children(
    delivery: Delivery, reasons: Mapping[FailedBecause, int], *, plan: Plan, now_ms: int
) -> Change:
    """All children have ended and required ones failed; the gravest reason is taken over."""
    failed = sum(reasons.values())
    failure = Failure(CHILDREN_FAILED, "reject", detail=f"{failed} required part(s) failed")
    because = next(reason for reason in _GRAVEST_FIRST if reasons.get(reason))
    return _dead(_note_failure(delivery, failure, now_ms), because, plan, now_ms)


@_transition(sources=("failed",), targets=("pending",))
def replay(
    delivery: Delivery,
    *,
    actor: str,
    reason: str,
    now_ms: int,
    generation: int | None = None,
    lane: str | None = None,
) -> Change:
    """Try again from the failed stage, in place, with a new budget and the old cycle kept."""
    cycle = Cycle(
        number=delivery.cycle,
        attempts=delivery.attempts,
        stage=delivery.stage,
        failed_because=delivery.failed_because,
        last_error=delivery.failure.detail if delivery.failure else None,
        error_class=delivery.failure.error_class if delivery.failure else None,
        code=delivery.failure.code if delivery.failure else None,
        first_failed_at_ms=delivery.first_failed_at_ms,
        failed_at_ms=delivery.ended_at_ms,
        generation=delivery.generation,
        replayed_at_ms=now_ms,
        replayed_by=actor,
        reason=reason,
    )
    after = _let_go(delivery, due_at_ms=now_ms, now_ms=now_ms)
    after = replace(
        after,
        failed_because=None,
        ended_at_ms=None,
        cycle=delivery.cycle + 1,
        attempts=0,
        max_attempts=None,
        crashes=0,
        failure=None,
        first_failed_at_ms=None,
        last_failed_at_ms=None,
        expires_at_ms=None,
        doubt_waived=delivery.maybe_sent,
        maybe_duplicate=delivery.maybe_duplicate or delivery.maybe_sent,
        recipients=recipients.reopen_refused(delivery.recipients),
        failure_history=(*delivery.failure_history, cycle),
        generation=delivery.generation if generation is None else generation,
        lane=lane or delivery.lane,
        stage=delivery.restart_at or delivery.stage,
        fanned_out=delivery.fanned_out and delivery.restart_at is None,
        restart_at=None,
    )
    return _reopening(Change(after))


@_transition(sources=("failed",), targets=("pending",))
def restart(delivery: Delivery, *, plan: Plan, actor: str, reason: str, now_ms: int) -> Change:
    """Try again from the first stage: the kept results are dropped."""
    change = replay(delivery, actor=actor, reason=reason, now_ms=now_ms)
    after = replace(change.delivery, stage=plan.first_stage.name, fanned_out=False)
    return replace(change, delivery=after, drop_results=True)


@_transition(sources=("failed",), targets=("dismissed",))
def dismiss(delivery: Delivery, *, now_ms: int) -> Change:
    """An operator closes a dead letter for good."""
    return Change(_ended(delivery, "dismissed", now_ms))


@_transition(sources=("pending", "waiting"), targets=("dismissed",))
def cancel(delivery: Delivery, *, now_ms: int) -> Change:
    """An operator or the caller withdraws what has not ended."""
    after = replace(_ended(delivery, "dismissed", now_ms), resume_at_ms=delivery.due_at_ms)
    return _closing(Change(after))


@_transition(sources=("dismissed",), targets=("failed", "pending"))
def restore(delivery: Delivery, *, now_ms: int) -> Change:
    """Undo a dismissal (back to the dead letters) or a cancellation (due when it was)."""
    if delivery.failed_because is not None:
        return Change(replace(delivery, state="failed", updated_at_ms=now_ms))
    due_at_ms = max(delivery.resume_at_ms or now_ms, now_ms)
    after = _let_go(delivery, due_at_ms=due_at_ms, now_ms=now_ms)
    return _reopening(Change(replace(after, ended_at_ms=None, resume_at_ms=None)))


@_transition(sources=("failed",), targets=("delivered", "failed"))
def confirm(delivery: Delivery, *, plan: Plan, evidence: str, now_ms: int) -> Change:
    """An operator has evidence that an uncertain one was accepted after all."""
    if delivery.failed_because != "uncertain":
        raise NotAllowed(f"cannot confirm delivery {delivery.id}: it is not uncertain")
    receipt = Receipt(accepted_at_ms=now_ms, evidence="operator", detail=evidence)
    # It had ended before: its parent's count knows already.
    return replace(_settle_by_evidence(delivery, plan, now_ms, receipt), child_delta=0)


@_transition(sources=("failed", "pending"), targets=("failed", "pending"))
def amend(
    delivery: Delivery,
    payload: bytes,
    *,
    plan: Plan,
    now_ms: int,
    addresses: tuple[str, ...] | None = None,
) -> Change:
    """A corrected payload takes the place of the old one, which is kept under its number.

    It is worked off from the first stage, by the replay if it has failed. `addresses` is the
    corrected envelope; whoever has it already is left alone.
    """
    first = plan.first_stage.name
    after = replace(delivery, payload_no=delivery.payload_no + 1, updated_at_ms=now_ms)
    if addresses is not None:
        known = {r.address: r for r in delivery.recipients if r.outcome != "refused"}
        kept = [r for r in known.values() if r.outcome == "accepted" and r.address not in addresses]
        named = [known.get(address) or Recipient(address) for address in addresses]
        after = replace(after, recipients=(*kept, *named))
    if delivery.state == "failed":
        after = replace(after, restart_at=first)
    else:
        after = replace(after, stage=first, fanned_out=False, attempts=0, crashes=0)
    return Change(after, payload=payload, drop_results=True)


@_transition(
    sources=("pending", "waiting", "delivered", "suppressed", "failed", "dismissed"),
    targets=("pending", "waiting", "delivered", "suppressed", "failed", "dismissed"),
)
def pay(delivery: Delivery, notices: tuple[str, ...]) -> Change:
    """Notices that were owed have been given."""
    return Change(
        replace(delivery, owed=tuple(notice for notice in delivery.owed if notice not in notices))
    )


def clone(
    original: Delivery,
    content: Content,
    *,
    plan: Plan,
    new_id: str,
    source: str,
    key: str,
    now_ms: int,
) -> New:
    """A deliberate second delivery of the same payload, with its own identity and history."""
    if original.state not in TERMINAL_STATES:
        raise NotAllowed(f"cannot resend delivery {original.id}: it is {original.state}")
    delivery = Delivery(
        id=new_id,
        route=original.route,
        lane=original.lane,
        stage=plan.first_stage.name,
        created_at_ms=now_ms,
        updated_at_ms=now_ms,
        due_at_ms=now_ms,
        source=source,
        key=key,
        fingerprint=original.fingerprint,
        topic=original.topic,
        priority=original.priority,
        generation=original.generation,
        recipients=tuple(Recipient(r.address) for r in original.recipients),
        clone_of=original.id,
        metadata=original.metadata,
    )
    return New(
        delivery,
        payload=content.payload,
        keys=(Key(source, key, new_id, original.fingerprint, _key_end(plan, now_ms)),),
    )


def overspent(delivery: Delivery, plan: Plan) -> FailedBecause | None:
    """Why no further attempt may start, if so: too many crashes or no budget left."""
    if delivery.crashes >= plan.max_crashes:
        return "poison"
    budget = delivery.max_attempts or plan.stage(delivery.stage).retry.max_attempts
    return "exhausted" if delivery.attempts >= budget else None


def waive_doubt(delivery: Delivery) -> Delivery:
    """Send again although an attempt may have been accepted; whoever asks is told so."""
    return replace(delivery, maybe_duplicate=True, doubt_waived=True)


def dispel_doubt(delivery: Delivery) -> Delivery:
    """The provider has shown that the attempt in doubt was not accepted."""
    return replace(
        delivery, maybe_sent_at_ms=None, recipients=recipients.dispel_doubt(delivery.recipients)
    )


def _back_in_line(delivery: Delivery, now_ms: int) -> Delivery:
    """Due as it was when it was claimed: it keeps its turn."""
    return _let_go(delivery, due_at_ms=delivery.claimed_at_ms or now_ms, now_ms=now_ms)


def _let_go(
    delivery: Delivery,
    *,
    due_at_ms: int | None,
    now_ms: int,
    state: State = "pending",
    **more: object,
) -> Delivery:
    """Nobody's any more; `more` is changed in the same copy."""
    return replace(
        delivery,
        state=state,
        holder=None,
        claims=0,
        claimed_at_ms=None,
        committing=False,
        begun=False,
        phase="worker",
        due_at_ms=due_at_ms,
        updated_at_ms=now_ms,
        **more,
    )


def _ended(delivery: Delivery, state: State, now_ms: int, **more: object) -> Delivery:
    return _let_go(delivery, due_at_ms=None, now_ms=now_ms, state=state, ended_at_ms=now_ms, **more)


def _evidence(
    delivery: Delivery, answered: recipients.Recipients, receipt: Receipt
) -> dict[str, object]:
    """Acceptance dispels the doubt, but for a recipient refused now who may have it already."""
    in_doubt = any(r.outcome == "maybe" for r in answered)
    return {
        "receipt": receipt,
        "recipients": answered,
        "maybe_sent_at_ms": delivery.maybe_sent_at_ms if in_doubt else None,
        "doubt_waived": delivery.doubt_waived and in_doubt,
    }


def _settle_by_evidence(delivery: Delivery, plan: Plan, now_ms: int, receipt: Receipt) -> Change:
    answered = recipients.accept_open(delivery.recipients, {})
    evidence = _evidence(delivery, answered, receipt)
    if all(r.outcome == "accepted" for r in answered):
        return _delivered(delivery, plan, now_ms, evidence)
    after = replace(delivery, **evidence)
    after = _note_failure(after, recipients.summary(answered, permanent=True), now_ms)
    return _dead(after, "rejected", plan, now_ms)


def _delivered(
    delivery: Delivery,
    plan: Plan,
    now_ms: int,
    evidence: Mapping[str, object],
    *,
    ended: tuple[Attempt, ...] = (),
    results: dict[str, bytes] | None = None,
) -> Change:
    owed = _owing(delivery, plan.owes_on_delivered)
    after = _ended(
        delivery, "delivered", now_ms, crashes=0, failed_because=None, owed=owed, **evidence
    )
    return Change(
        after,
        ended=ended,
        results=results or {},
        forget=not (plan.keep_delivered or owed),
        child_delta=-1 if delivery.parent_id else 0,
    )


def _dead(
    delivery: Delivery,
    because: FailedBecause,
    plan: Plan,
    now_ms: int,
    *,
    ended: tuple[Attempt, ...] = (),
) -> Change:
    # Never call "not sent" what may have been sent.
    because = "uncertain" if delivery.maybe_sent else because
    error_class = delivery.failure.error_class if delivery.failure else ""
    notices = (
        *plan.owes_on_failed,
        *plan.owes_by_reason.get(because, ()),
        *plan.owes_by_class.get(error_class, ()),
    )
    if because == "rejected" and _same_class_again(delivery, error_class):
        notices = (*notices, *plan.owes_on_repeat)
    after = _ended(
        delivery,
        "failed",
        now_ms,
        failed_because=because,
        first_failed_at_ms=delivery.first_failed_at_ms or now_ms,
        last_failed_at_ms=delivery.last_failed_at_ms or now_ms,
        owed=_owing(delivery, notices),
    )
    return _closing(Change(after, ended=ended))


def _same_class_again(delivery: Delivery, error_class: str) -> bool:
    """A replay ended in the very error that it was to mend; a child's error is its own."""
    return (
        error_class != CHILDREN_FAILED
        and bool(delivery.failure_history)
        and (delivery.failure_history[-1].error_class == error_class)
    )


def _back_to_route(delivery: Delivery, failure: Failure, now_ms: int) -> Change:
    """The route is at fault, not the message: no budget is spent, and its turn is kept."""
    ended = _attempt(delivery, "route_fault", now_ms, counted=False, failure=failure)
    after = _note_failure(delivery, failure, now_ms)
    after = replace(after, attempt_no=delivery.attempt_no + 1, crashes=0)
    return Change(_back_in_line(after, now_ms), ended=(ended,))


def _attempt(
    delivery: Delivery,
    status: AttemptStatus,
    now_ms: int,
    *,
    counted: bool = True,
    failure: Failure | None = None,
    receipt: Receipt | None = None,
    window: DoubtWindow | None = None,
) -> Attempt:
    maybe_sent = bool(failure and failure.maybe_sent)
    return Attempt(
        delivery_id=delivery.id,
        number=delivery.attempt_no + 1,
        stage=delivery.stage,
        status=status,
        cycle=delivery.cycle,
        phase=delivery.phase,
        counted=counted,
        started_at_ms=delivery.claimed_at_ms,
        ended_at_ms=now_ms,
        holder=delivery.holder,
        error_class=failure.error_class if failure else None,
        code=failure.code if failure else None,
        detail=failure.detail if failure else None,
        notification_id=receipt.notification_id if receipt else None,
        maybe_sent=maybe_sent,
        window=window or ("W1" if maybe_sent else None),
    )


def _counts(delivery: Delivery, plan: Plan) -> bool:
    return delivery.phase == "worker" or plan.inline_counts


def _note_failure(delivery: Delivery, failure: Failure, now_ms: int) -> Delivery:
    answered = delivery.recipients
    maybe_sent_at_ms, doubt_waived = delivery.maybe_sent_at_ms, delivery.doubt_waived
    if failure.refused:
        answered = recipients.note_refusals(answered, failure.refused)
    if failure.maybe_sent:
        maybe_sent_at_ms, doubt_waived = now_ms, False
        answered = recipients.put_in_doubt(answered)
    return replace(
        delivery,
        failure=failure,
        recipients=answered,
        maybe_sent_at_ms=maybe_sent_at_ms,
        doubt_waived=doubt_waived,
        first_failed_at_ms=delivery.first_failed_at_ms or now_ms,
        last_failed_at_ms=now_ms,
    )


def _kept(delivery: Delivery, result: bytes | None) -> dict[str, bytes]:
    return {} if result is None else {delivery.stage: result}


def _dated(receipt: Receipt | None, now_ms: int) -> Receipt:
    if receipt is None:
        return Receipt(accepted_at_ms=now_ms)
    if receipt.accepted_at_ms is not None:
        return receipt
    return replace(receipt, accepted_at_ms=now_ms)


def _owing(delivery: Delivery, notices: tuple[str, ...]) -> tuple[str, ...]:
    if not notices:
        return delivery.owed
    return (*delivery.owed, *(notice for notice in notices if notice not in delivery.owed))


def _closing(change: Change) -> Change:
    """A child that ends takes itself off its parent's open count."""
    return replace(change, child_delta=-1) if change.delivery.parent_id else change


def _reopening(change: Change) -> Change:
    return replace(change, child_delta=1) if change.delivery.parent_id else change


def _key_end(plan: Plan, now_ms: int) -> int | None:
    key_s = plan.retention.key_s
    return None if key_s is None else now_ms + round(key_s * 1000)
