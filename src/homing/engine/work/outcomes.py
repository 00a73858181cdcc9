"""Turns the outcome of an attempt into the change to save. Nothing here raises."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TypeAlias

from msgspec.structs import replace

from homing.domain import transitions
from homing.domain.delivery import Change, Fact, Receipt
from homing.domain.failure import (
    RECIPIENT_DEFERRED,
    RECIPIENT_REFUSED,
    TIMED_OUT,
    Disposition,
    Failure,
    Refusal,
)
from homing.domain.policy import Stage
from homing.engine.commit.settlement import PendingSave
from homing.engine.route import classify_exception
from homing.engine.work.claimed_work import ClaimedWork
from homing.ports import Done, FanOut, Outcome

log = logging.getLogger("homing.engine")

Judge: TypeAlias = Callable[[Exception | Failure, Stage], Failure]

# A retry that is due within this time is due at once.
AT_ONCE_MS = 1


def conclude(
    work: ClaimedWork, outcome: Outcome | BaseException, *, maybe_sent: bool = False
) -> PendingSave:
    """The save that ends the attempt: by what the step returned, or by what it raised.

    The route classifies a failure once. An error in doing that is a failed attempt as well.
    """
    try:
        if isinstance(outcome, BaseException):
            failure = work.route.judge(as_exception(outcome), work.stage)
            judged: Outcome = replace(failure, maybe_sent=failure.maybe_sent or maybe_sent)
        else:
            judged = _judged(outcome, work.stage, work.route.judge)
        return save_of(work, *_change_for(work, judged))
    except Exception as error:
        return conclude_fault(work, error, maybe_sent=maybe_sent)


def conclude_done(
    work: ClaimedWork, done: Done, now_ms: int, *, maybe_sent: bool = False
) -> PendingSave:
    """The outcome of most attempts. As `conclude`, in fewer calls, and at the time of a batch."""
    if done.refused:
        return conclude(work, done)
    try:
        return save_of(work, *finish_stage(work, done, now_ms))
    except Exception as error:
        return conclude_fault(work, error, maybe_sent=maybe_sent)


def as_exception(error: BaseException) -> Exception:
    """A cancellation that was not meant for this task is a failure like any other."""
    if isinstance(error, Exception):
        return error
    return RuntimeError(f"ended by {type(error).__name__}")


def conclude_fault(work: ClaimedWork, error: Exception, *, maybe_sent: bool = False) -> PendingSave:
    """A bug of Homing or of a plugin: a failed attempt, and finally a dead letter."""
    log.error(
        "the attempt of delivery %s raised an unexpected error", work.delivery.id, exc_info=error
    )
    failure = replace(
        classify_exception(error),
        error_class="engine_error",
        maybe_sent=maybe_sent or work.delivery.committing,
    )
    if work.is_stage_known:
        return save_of(work, "fail", _failed(work, failure))
    return dead_letter_lost_stage(work, failure)


def dead_letter_lost_stage(work: ClaimedWork, failure: Failure | None = None) -> PendingSave:
    """The plan no longer has the stage, so there is no retry policy."""
    if failure is None:
        failure = Failure("engine_error", detail=f"the plan has no stage {work.stage.name!r}")
    delivery = replace(work.delivery, failure=failure)
    change = transitions.dead_letter(delivery, "poison", plan=work.plan, now_ms=work.now_ms)
    return save_of(work, "poison", change)


def conclude_found(work: ClaimedWork, receipt: Receipt) -> PendingSave:
    """There is evidence that an earlier attempt was accepted."""
    change = transitions.settle_found(
        work.delivery, plan=work.plan, now_ms=work.now_ms, receipt=receipt
    )
    return save_of(work, "settle_found", change)


def save_of(work: ClaimedWork, name: str, change: Change) -> PendingSave:
    facts: tuple[Fact, ...] = ()
    if change.ended and change.ended[-1].status == "route_fault" and change.delivery.failure:
        facts = work.process.pausing.by_fault(work.route, change.delivery.failure)
    return PendingSave(
        name,
        change,
        work.delivery,
        work.lease_end_s,
        must_keep=work.delivery.committing,
        facts=facts,
    )


def timed_out(stage: Stage, *, maybe_sent: bool) -> Failure:
    detail = f"no answer within {stage.timeout_s:g} s"
    return Failure(TIMED_OUT, detail=detail, maybe_sent=maybe_sent)


def _change_for(work: ClaimedWork, outcome: Outcome) -> tuple[str, Change]:
    delivery, plan, process = work.delivery, work.plan, work.process
    now_ms = process.clock.now_ms()
    if isinstance(outcome, Done):
        return finish_stage(work, outcome, now_ms)
    if isinstance(outcome, FanOut):
        change = transitions.fan_out(
            delivery, outcome.children, now_ms=now_ms, result=outcome.result
        )
        return "fan_out", change
    if not isinstance(outcome, Failure):
        raise TypeError(f"a step returned {type(outcome).__name__}, not Done, FanOut or Failure")
    if outcome.disposition == "suppress":
        return "suppress", transitions.suppress(delivery, outcome, plan=plan, now_ms=now_ms)
    return "fail", _failed(work, outcome)


def finish_stage(work: ClaimedWork, done: Done, now_ms: int) -> tuple[str, Change]:
    delivery, plan, process = work.delivery, work.plan, work.process
    if work.stage is plan.stages[-1]:
        change = transitions.succeed(
            delivery,
            plan=plan,
            now_ms=now_ms,
            roll=process.rng.roll() if done.refused else 0.0,
            receipt=done.receipt,
            refused=done.refused,
            result=done.result,
        )
        return "succeed", change
    keeps = delivery.phase == "inline"
    change = transitions.advance(
        delivery,
        plan=plan,
        now_ms=now_ms,
        result=done.result,
        keep_until_ms=process.lease_until_ms(work.route) if keeps else None,
    )
    return "advance", change


def _failed(work: ClaimedWork, failure: Failure) -> Change:
    delivery, process = work.delivery, work.process
    now_ms = process.clock.now_ms()
    change = transitions.fail(
        delivery,
        failure,
        plan=work.plan,
        now_ms=now_ms,
        roll=process.rng.roll(),
        can_look=work.route.lookup is not None,
    )
    after = change.delivery
    if delivery.phase == "inline" and work.plan.inline_retries_at_once:
        due_at_ms = after.due_at_ms
        pauses = bool(change.ended) and change.ended[-1].status == "route_fault"
        if due_at_ms is not None and due_at_ms <= now_ms + AT_ONCE_MS and not pauses:
            kept = transitions.keep_claim(
                after,
                holder=delivery.holder,
                now_ms=now_ms,
                lease_until_ms=process.lease_until_ms(work.route),
            )
            return replace(change, delivery=kept.delivery)
    return change


def _judged(outcome: Outcome, stage: Stage, judge: Judge) -> Outcome:
    """The route's classification of a failure, and of each refused recipient."""
    if isinstance(outcome, FanOut) or (isinstance(outcome, Done) and not outcome.refused):
        return outcome
    refused = {
        address: _judged_refusal(refusal, stage, judge)
        for address, refusal in outcome.refused.items()
    }
    if isinstance(outcome, Done):
        return replace(outcome, refused=refused)
    return replace(judge(outcome, stage), refused=refused)


def _judged_refusal(refusal: Refusal, stage: Stage, judge: Judge) -> Refusal:
    if refusal.maybe_sent:
        return refusal
    word = RECIPIENT_REFUSED if refusal.permanent else RECIPIENT_DEFERRED
    disposition: Disposition = "reject" if refusal.permanent else "retry"
    failure = Failure(word, disposition, code=refusal.code, detail=refusal.detail or "")
    return replace(refusal, permanent=judge(failure, stage).disposition == "reject")
