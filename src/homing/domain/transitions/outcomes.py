"""What an attempt comes to: accepted, failed, suppressed, in doubt, given up."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from homing.domain import recipients
from homing.domain.delivery import (
    Attempt,
    AttemptStatus,
    Change,
    Delivery,
    FailedBecause,
    Receipt,
    Recipient,
)
from homing.domain.failure import Failure, Refusal
from homing.domain.policy import Plan
from homing.domain.transitions.declaring import transition
from homing.domain.transitions.moves import (
    attempt_of,
    back_in_line,
    closing,
    counts_as_attempt,
    dead_letter,
    deliver,
    end,
    evidence_of,
    next_attempt_ms,
    note_failure,
    owing,
    result_of_stage,
    settle_by_evidence,
    to_state,
)


@transition(sources=("in_flight",), targets=("pending", "in_flight"))
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
    ended = () if stage.quiet else (attempt_of(delivery, "done", now_ms),)
    after = to_state(delivery, due_at_ms=now_ms, now_ms=now_ms)
    if keep_until_ms is not None:
        after = replace(
            after,
            state="in_flight",
            holder=delivery.holder,
            due_at_ms=keep_until_ms,
            unsettled_claims=1,
            phase=delivery.phase,
        )
    after = replace(
        after,
        stage=following.name,
        attempts_ended=delivery.attempts_ended + len(ended),
        attempts_spent=0,
        crashes=0,
        fanned_out=False,
        failure=None,
        first_failed_at_ms=None,
        last_failed_at_ms=None,
        maybe_sent_at_ms=None,
        doubt_waived=False,
    )
    return Change(after, ended=ended, results=result_of_stage(delivery, result))


@transition(sources=("in_flight",), targets=("delivered", "failed", "pending"))
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
    in_question = delivery.recipients and [
        r for r in delivery.recipients if r.outcome in ("maybe", "refused")
    ]
    if not (in_question or refused or delivery.maybe_sent_at_ms):
        return _succeed_plainly(delivery, plan, now_ms, receipt, result)
    return _succeed_in_part(delivery, plan, now_ms, roll, receipt, refused or {}, result)


def _succeed_in_part(
    delivery: Delivery,
    plan: Plan,
    now_ms: int,
    roll: float,
    receipt: Receipt | None,
    refused: Mapping[str, Refusal],
    result: bytes | None,
) -> Change:
    answered = recipients.accept_open(delivery.recipients, refused)
    counts = counts_as_attempt(delivery, plan)
    evidence = evidence_of(delivery, answered, _dated(receipt, now_ms))
    if recipients.left_to_try(answered, refused):
        after = replace(delivery, **evidence)
        deferred = recipients.summary(answered, permanent=False)
        return _failed(after, deferred, plan, now_ms, roll=roll, can_look=False)
    everybody = all(r.outcome == "accepted" for r in answered)
    failure = None if everybody else recipients.summary(answered, permanent=True)
    status: AttemptStatus = "done" if failure is None else "rejected"
    ended = attempt_of(delivery, status, now_ms, counted=counts, failure=failure, receipt=receipt)
    evidence["attempts_ended"] = delivery.attempts_ended + 1
    evidence["attempts_spent"] = delivery.attempts_spent + int(counts)
    if failure is not None:
        after = note_failure(replace(delivery, **evidence), failure, now_ms)
        return dead_letter(after, "rejected", plan, now_ms, ended=(ended,))
    kept = result_of_stage(delivery, result)
    return deliver(delivery, plan, now_ms, evidence, ended=(ended,), results=kept)


def _succeed_plainly(
    delivery: Delivery, plan: Plan, now_ms: int, receipt: Receipt | None, result: bytes | None
) -> Change:
    """No recipient is refused and nothing is in doubt, so all that are open have it now.

    Most deliveries end here. It is the same as `_succeed_in_part`, written out in few calls.
    """
    counts = delivery.phase == "worker" or plan.inline_counts
    number = delivery.attempts_ended + 1
    notices_due = delivery.notices_due
    if plan.notify_on_delivered:
        notices_due = owing(delivery, plan.notify_on_delivered)
    answered = delivery.recipients and tuple(
        [
            Recipient(r.address, "accepted") if r.outcome == "open" else r
            for r in delivery.recipients
        ]
    )
    after = replace(
        delivery,
        state="delivered",
        holder=None,
        unsettled_claims=0,
        claimed_at_ms=None,
        committing=False,
        interruption_noted=False,
        interruptions=0,
        tried_alone=False,
        phase="worker",
        due_at_ms=None,
        updated_at_ms=now_ms,
        ended_at_ms=now_ms,
        crashes=0,
        failed_because=None,
        notices_due=notices_due,
        receipt=Receipt(accepted_at_ms=now_ms) if receipt is None else _dated(receipt, now_ms),
        recipients=answered,
        doubt_waived=False,
        attempts_ended=number,
        attempts_spent=delivery.attempts_spent + counts,
    )
    ended = Attempt(
        delivery_id=delivery.id,
        number=number,
        stage=delivery.stage,
        status="done",
        cycle=delivery.cycle,
        phase=delivery.phase,
        counted=counts,
        started_at_ms=delivery.claimed_at_ms,
        ended_at_ms=now_ms,
        holder=delivery.holder,
        notification_id=receipt.notification_id if receipt else None,
    )
    return Change(
        after,
        ended=(ended,),
        results={} if result is None else {delivery.stage: result},
        child_delta=-1 if delivery.parent_id else 0,
        forget=not (plan.keep_delivered or notices_due),
    )


@transition(sources=("in_flight",), targets=("delivered", "failed"))
def settle_found(delivery: Delivery, *, plan: Plan, now_ms: int, receipt: Receipt) -> Change:
    """Evidence shows that an attempt in doubt was accepted: no second send is made."""
    return settle_by_evidence(delivery, plan, now_ms, _dated(receipt, now_ms))


@transition(sources=("in_flight",), targets=("suppressed", "failed"))
def suppress(delivery: Delivery, failure: Failure, *, plan: Plan, now_ms: int) -> Change:
    """Skipped on purpose, by the provider or a rule; counted as a good end unless in doubt."""
    counts = counts_as_attempt(delivery, plan)
    ended = attempt_of(delivery, "suppressed", now_ms, counted=counts, failure=failure)
    after = replace(
        delivery,
        attempts_ended=delivery.attempts_ended + 1,
        attempts_spent=delivery.attempts_spent + int(counts),
        failure=failure,
    )
    if delivery.maybe_sent:
        return dead_letter(after, "uncertain", plan, now_ms, ended=(ended,))
    return closing(Change(end(after, "suppressed", now_ms), ended=(ended,)))


@transition(sources=("pending",), targets=("suppressed",))
def suppress_at_intake(delivery: Delivery, reason: str, *, now_ms: int) -> Change:
    """Skipped on purpose before it is stored: no attempt is ever made."""
    failure = Failure("suppressed", "suppress", detail=reason)
    return Change(replace(end(delivery, "suppressed", now_ms), failure=failure))


@transition(sources=("in_flight",), targets=("pending", "failed"))
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
    counts = counts_as_attempt(delivery, plan)
    ended = attempt_of(delivery, status, now_ms, counted=counts, failure=failure)
    after = replace(
        note_failure(delivery, failure, now_ms),
        attempts_ended=delivery.attempts_ended + 1,
        attempts_spent=delivery.attempts_spent + int(counts),
        crashes=0,
    )
    if disposition == "reject":
        return dead_letter(after, "rejected", plan, now_ms, ended=(ended,))
    retry = plan.stage(delivery.stage).retry
    spent = after.attempts_spent >= (delivery.max_attempts or retry.max_attempts)
    # Out of budget but in doubt: one more claim, for the lookup alone, before any verdict.
    if spent and not (after.maybe_sent and can_look):
        return dead_letter(after, "exhausted", plan, now_ms, ended=(ended,))
    due_at_ms = next_attempt_ms(after, failure, plan, now_ms, roll)
    return Change(to_state(after, due_at_ms=due_at_ms, now_ms=now_ms), ended=(ended,))


@transition(sources=("in_flight",), targets=("failed",))
def give_up(delivery: Delivery, because: FailedBecause, *, plan: Plan, now_ms: int) -> Change:
    """No further attempt is allowed: expired, out of budget, in doubt on hold, or poison."""
    return dead_letter(delivery, because, plan, now_ms)


@transition(sources=("in_flight",), targets=("pending",))
def await_evidence(delivery: Delivery, *, now_ms: int, due_at_ms: int) -> Change:
    """In doubt, and the provider cannot tell yet: ask again later. That is no attempt."""
    return Change(to_state(delivery, due_at_ms=due_at_ms, now_ms=now_ms))


def waive_doubt(delivery: Delivery) -> Delivery:
    """Send again although an attempt may have been accepted; whoever asks is told so."""
    return replace(delivery, maybe_duplicate=True, doubt_waived=True)


def dispel_doubt(delivery: Delivery) -> Delivery:
    """The provider has shown that the attempt in doubt was not accepted."""
    return replace(
        delivery, maybe_sent_at_ms=None, recipients=recipients.dispel_doubt(delivery.recipients)
    )


def _back_to_route(delivery: Delivery, failure: Failure, now_ms: int) -> Change:
    """The route is at fault, not the message: no budget is spent, and its turn is kept."""
    ended = attempt_of(delivery, "route_fault", now_ms, counted=False, failure=failure)
    after = note_failure(delivery, failure, now_ms)
    after = replace(after, attempts_ended=delivery.attempts_ended + 1, crashes=0)
    return Change(back_in_line(after, now_ms), ended=(ended,))


def _dated(receipt: Receipt | None, now_ms: int) -> Receipt:
    if receipt is None:
        return Receipt(accepted_at_ms=now_ms)
    if receipt.accepted_at_ms is not None:
        return receipt
    return replace(receipt, accepted_at_ms=now_ms)
