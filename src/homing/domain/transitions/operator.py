"""The operator's verbs: replay, restart, dismiss, cancel, restore, confirm, amend, resend."""

from __future__ import annotations

from msgspec.structs import replace

from homing.domain import recipients
from homing.domain.delivery import (
    FROZEN,
    FROZEN_ORIGINAL,
    TERMINAL_STATES,
    Change,
    Content,
    Cycle,
    Delivery,
    Key,
    New,
    Receipt,
    Recipient,
)
from homing.domain.errors import NotAllowed
from homing.domain.policy import Plan
from homing.domain.transitions.endings import end_by_evidence, end_failed
from homing.domain.transitions.states import count_ended, count_reopened, end, to_state
from homing.domain.transitions.table import transition


@transition(sources=("failed",), targets=("pending",))
def replay(
    delivery: Delivery,
    *,
    actor: str,
    reason: str,
    now_ms: int,
    generation: int | None = None,
    queue: str | None = None,
) -> Change:
    """Try again from the failed stage, in place, with a new budget; the old cycle is kept."""
    cycle = Cycle(
        number=delivery.cycle,
        attempts=delivery.attempts_spent,
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
    after = to_state(delivery, due_at_ms=now_ms, now_ms=now_ms)
    after = replace(
        after,
        failed_because=None,
        ended_at_ms=None,
        cycle=delivery.cycle + 1,
        attempts_spent=0,
        max_attempts=None,
        crashes=0,
        failure=None,
        first_failed_at_ms=None,
        last_failed_at_ms=None,
        expires_at_ms=None,
        doubt_waived=delivery.maybe_sent,
        maybe_duplicate=delivery.maybe_duplicate or delivery.possibly_sent,
        recipients=recipients.reopen_refused(delivery.recipients),
        failure_history=(*delivery.failure_history, cycle),
        generation=delivery.generation if generation is None else generation,
        queue=queue or delivery.queue,
        stage=delivery.restart_at or delivery.stage,
        fanned_out=delivery.fanned_out and delivery.restart_at is None,
        restart_at=None,
    )
    return count_reopened(Change(after))


@transition(sources=("failed",), targets=("pending",))
def restart(delivery: Delivery, *, plan: Plan, actor: str, reason: str, now_ms: int) -> Change:
    """Try again from the first stage: the kept results are dropped."""
    change = replay(delivery, actor=actor, reason=reason, now_ms=now_ms)
    first = plan.first_stage.name
    after = replace(
        change.delivery,
        stage=first,
        fanned_out=False,
        # Repeating a stage before the one in doubt gives no evidence about that one.
        earlier_maybe_sent=delivery.earlier_maybe_sent
        or (delivery.maybe_sent and delivery.stage != first),
    )
    return replace(change, delivery=after, drop_results=True)


@transition(sources=("failed",), targets=("dismissed",))
def dismiss(delivery: Delivery, *, now_ms: int) -> Change:
    """An operator closes a dead letter. `restore` brings back when it became one."""
    return Change(replace(end(delivery, "dismissed", now_ms), resume_at_ms=delivery.ended_at_ms))


@transition(sources=("pending", "waiting"), targets=("dismissed", "failed"))
def cancel(delivery: Delivery, *, plan: Plan, now_ms: int) -> Change:
    """An operator or the caller withdraws an open delivery; in doubt, it becomes uncertain."""
    if delivery.possibly_sent:
        return end_failed(delivery, "uncertain", plan, now_ms)
    after = replace(end(delivery, "dismissed", now_ms), resume_at_ms=delivery.due_at_ms)
    return count_ended(Change(after))


@transition(sources=("dismissed",), targets=("failed", "pending", "waiting"))
def restore(delivery: Delivery, *, now_ms: int) -> Change:
    """Undo a dismissal (back to the dead letters) or a cancellation (due when it was).

    What waited for its children waits for them again.
    """
    if delivery.failed_because is not None:
        failed_at_ms = delivery.resume_at_ms or delivery.ended_at_ms
        return Change(
            replace(
                delivery,
                state="failed",
                updated_at_ms=now_ms,
                ended_at_ms=failed_at_ms,
                resume_at_ms=None,
            )
        )
    if delivery.fanned_out and delivery.resume_at_ms is None:
        after = to_state(delivery, due_at_ms=None, now_ms=now_ms, state="waiting")
    else:
        due_at_ms = max(delivery.resume_at_ms or now_ms, now_ms)
        after = to_state(delivery, due_at_ms=due_at_ms, now_ms=now_ms)
    return count_reopened(Change(replace(after, ended_at_ms=None, resume_at_ms=None)))


@transition(sources=("failed",), targets=("delivered", "failed"))
def confirm(delivery: Delivery, *, plan: Plan, evidence: str, now_ms: int) -> Change:
    """An operator has evidence that an uncertain one was accepted after all."""
    if delivery.failed_because != "uncertain":
        raise NotAllowed(f"cannot confirm delivery {delivery.id}: it is not uncertain")
    receipt = Receipt(accepted_at_ms=now_ms, evidence="operator", detail=evidence)
    # It had ended already: its parent's count includes that.
    return replace(end_by_evidence(delivery, plan, now_ms, receipt), child_delta=0)


@transition(sources=("failed", "pending"), targets=("failed", "pending"))
def amend(
    delivery: Delivery,
    payload: bytes,
    *,
    plan: Plan,
    now_ms: int,
    addresses: tuple[str, ...] | None = None,
) -> Change:
    """A corrected payload replaces the old one, which is kept under its number.

    It starts at the first stage, after a replay if it has failed. `addresses` is the corrected
    envelope; recipients that have accepted it are left alone. Tokens and marks of the old payload
    say nothing about the new one: a doubt about the old one can no longer be settled by evidence,
    and the delivery can no longer be reported as "not sent".
    """
    first = plan.first_stage.name
    after = replace(
        delivery,
        payload_no=delivery.payload_no + 1,
        updated_at_ms=now_ms,
        earlier_maybe_sent=delivery.possibly_sent,
        maybe_duplicate=delivery.maybe_duplicate or delivery.possibly_sent,
        maybe_sent_at_ms=None,
        doubt_waived=False,
        committed_at_ms=None,
    )
    if addresses is not None:
        known = {r.address: r for r in delivery.recipients if r.outcome != "refused"}
        kept = [r for r in known.values() if r.outcome == "accepted" and r.address not in addresses]
        named = [known.get(address) or Recipient(address) for address in addresses]
        after = replace(after, recipients=(*kept, *named))
    if delivery.state == "failed":
        after = replace(after, restart_at=first)
    else:
        after = replace(after, stage=first, fanned_out=False, attempts_spent=0, crashes=0)
    return Change(after, payload=payload, drop_results=True)


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
    """A deliberate second delivery of the same text, with its own identity and history.

    Results of the stages before the send are kept, and their steps return them again; where there
    are none, the frozen bytes are kept as `FROZEN_ORIGINAL`. So a template that has changed since
    does not change what is sent. Work that sends nothing keeps nothing.
    """
    if original.state not in TERMINAL_STATES:
        raise NotAllowed(f"cannot resend delivery {original.id}: it is {original.state}")
    delivery = Delivery(
        id=new_id,
        route=original.route,
        queue=original.queue,
        plan=original.plan,
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
        key_term_s=plan.retention.key_s,
    )
    return New(
        delivery,
        payload=content.payload,
        keys=(Key(source, key, new_id, original.fingerprint),),
        results=_kept_for_clone(content, plan),
    )


def _kept_for_clone(content: Content, plan: Plan) -> dict[str, bytes]:
    if plan.first_stage.sends:
        frozen = content.results.get(FROZEN) or content.results.get(FROZEN_ORIGINAL)
        return {} if frozen is None else {FROZEN_ORIGINAL: frozen}
    names = [stage.name for stage in plan.stages]
    sends = [stage.name for stage in plan.stages if stage.sends]
    before = names[: names.index(sends[0])] if sends else []
    return {name: content.results[name] for name in before if name in content.results}
