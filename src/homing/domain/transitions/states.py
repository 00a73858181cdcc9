"""The fields that change together when a delivery is no longer held, ends, or is reopened."""

from __future__ import annotations

from msgspec.structs import replace

from homing.domain.delivery import Change, Delivery, State


def to_state(
    delivery: Delivery,
    *,
    due_at_ms: int | None,
    now_ms: int,
    state: State = "pending",
    **more: object,
) -> Delivery:
    """In this state and held by no worker; `more` is changed in the same copy."""
    return replace(
        delivery,
        state=state,
        holder=None,
        unsettled_claims=0,
        claimed_at_ms=None,
        committing=False,
        interruption_noted=False,
        interruptions=0,
        tried_alone=False,
        phase="worker",
        due_at_ms=due_at_ms,
        updated_at_ms=now_ms,
        **more,
    )


def requeue(delivery: Delivery, now_ms: int) -> Delivery:
    """Pending and due since the claim, so that it keeps its place among those that are due."""
    return to_state(delivery, due_at_ms=delivery.claimed_at_ms or now_ms, now_ms=now_ms)


def end(delivery: Delivery, state: State, now_ms: int, **more: object) -> Delivery:
    return to_state(
        delivery, due_at_ms=None, now_ms=now_ms, state=state, ended_at_ms=now_ms, **more
    )


def count_ended(change: Change) -> Change:
    """A child that ends lowers its parent's count of open children."""
    return replace(change, child_delta=-1) if change.delivery.parent_id else change


def count_reopened(change: Change) -> Change:
    """A child that is open again raises its parent's count."""
    return replace(change, child_delta=1 if change.delivery.parent_id else 0, reopens=True)


def result_of_stage(delivery: Delivery, result: bytes | None) -> dict[str, bytes]:
    return {} if result is None else {delivery.stage: result}
