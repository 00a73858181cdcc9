"""How an attempt ends: the stage or the delivery is done, suppressed, failed, dead-lettered."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from homing.domain import recipients
from homing.domain.delivery import AttemptStatus, Change, Delivery, FailedBecause, Receipt
from homing.domain.failure import RATE_LIMITED, Failure, Refusal
from homing.domain.policy import Plan
from homing.domain.transitions.attempts import (
    attempt_of,
    counts_as_attempt,
    next_attempt_ms,
    note_failure,
)
from homing.domain.transitions.doubt import dated
from homing.domain.transitions.endings import end_delivered, end_failed, evidence_of
from homing.domain.transitions.plain_success import succeed_plainly
from homing.domain.transitions.states import (
    count_ended,
    end,
    requeue,
    result_of_stage,
    to_state,
)
from homing.domain.transitions.table import transition


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

    With `keep_until_ms` the holder keeps the claim, to continue at once in the same call.
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
    """The last stage was accepted; if a recipient was refused, the delivery is not delivered."""
    in_question = delivery.recipients and [
        r for r in delivery.recipients if r.outcome in ("maybe", "refused")
    ]
    if not (in_question or refused or delivery.maybe_sent_at_ms):
        return succeed_plainly(delivery, plan, now_ms, receipt, result)
    return succeed_in_part(delivery, plan, now_ms, roll, receipt, refused or {}, result)


def succeed_in_part(
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
    evidence = evidence_of(delivery, answered, dated(receipt, now_ms))
    if recipients.left_to_try(answered, refused):
        after = replace(delivery, **evidence)
        deferred = replace(
            recipients.summary(answered, permanent=False),
            maybe_sent=any(refusal.maybe_sent for refusal in refused.values()),
        )
        return _failed(after, deferred, plan, now_ms, roll=roll, can_look=False)
    all_accepted = all(r.outcome == "accepted" for r in answered)
    failure = None if all_accepted else recipients.summary(answered, permanent=True)
    status: AttemptStatus = "done" if failure is None else "rejected"
    ended = attempt_of(delivery, status, now_ms, counted=counts, failure=failure, receipt=receipt)
    evidence["attempts_ended"] = delivery.attempts_ended + 1
    evidence["attempts_spent"] = delivery.attempts_spent + int(counts)
    if failure is not None:
        after = note_failure(replace(delivery, **evidence), failure, now_ms)
        return end_failed(after, "rejected", plan, now_ms, ended=(ended,))
    kept = result_of_stage(delivery, result)
    return end_delivered(delivery, plan, now_ms, evidence, ended=(ended,), results=kept)


@transition(sources=("in_flight",), targets=("suppressed", "failed"))
def suppress(delivery: Delivery, failure: Failure, *, plan: Plan, now_ms: int) -> Change:
    """Skipped on purpose, by the provider or a rule; a success unless in doubt."""
    counts = counts_as_attempt(delivery, plan)
    ended = attempt_of(delivery, "suppressed", now_ms, counted=counts, failure=failure)
    after = replace(
        delivery,
        attempts_ended=delivery.attempts_ended + 1,
        attempts_spent=delivery.attempts_spent + int(counts),
        failure=failure,
    )
    if delivery.possibly_sent:
        return end_failed(after, "uncertain", plan, now_ms, ended=(ended,))
    return count_ended(Change(end(after, "suppressed", now_ms), ended=(ended,)))


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
    """An attempt failed: retry by the policy, wait for the route's repair, or dead-letter it."""
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
        if plan.on_route_fault == "pause":
            return _back_to_route(delivery, failure, now_ms)
        fails = plan.on_route_fault == "fail" and failure.error_class != RATE_LIMITED
        disposition = "reject" if fails else "retry"
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
        return end_failed(after, "rejected", plan, now_ms, ended=(ended,))
    retry = plan.stage(delivery.stage).retry
    spent = after.attempts_spent >= (delivery.max_attempts or retry.max_attempts)
    # Out of budget but in doubt: one more claim, for the lookup alone, before it is dead-lettered.
    if spent and not (after.maybe_sent and can_look):
        return end_failed(after, "exhausted", plan, now_ms, ended=(ended,))
    due_at_ms = next_attempt_ms(after, failure, plan, now_ms, roll)
    return Change(to_state(after, due_at_ms=due_at_ms, now_ms=now_ms), ended=(ended,))


@transition(sources=("in_flight",), targets=("failed",))
def dead_letter(delivery: Delivery, because: FailedBecause, *, plan: Plan, now_ms: int) -> Change:
    """No further attempt is allowed: expired, out of budget, in doubt and held, or poison."""
    return end_failed(delivery, because, plan, now_ms)


def _back_to_route(delivery: Delivery, failure: Failure, now_ms: int) -> Change:
    """The route is at fault, not the message: no budget is spent, and its due time stays."""
    ended = attempt_of(delivery, "route_fault", now_ms, counted=False, failure=failure)
    after = note_failure(delivery, failure, now_ms)
    after = replace(after, attempts_ended=delivery.attempts_ended + 1, crashes=0)
    return Change(requeue(after, now_ms), ended=(ended,))
