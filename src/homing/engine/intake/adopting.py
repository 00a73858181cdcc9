"""Adopts a delivery from the record of another program, in the state it had there."""

from __future__ import annotations

from typing import Literal, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from homing.domain.delivery import Cycle, Delivery, FailedBecause, New, Receipt
from homing.domain.errors import InvalidRequest
from homing.domain.failure import Failure
from homing.engine.intake.request import Request

StandingState: TypeAlias = Literal["pending", "delivered", "suppressed", "failed", "dismissed"]


class ForeignState(Struct, frozen=True, kw_only=True):
    """The state in another program. A delivery that it is just trying is pending here.

    `updated_at_ms` is the time of the last change; for an ended delivery, the time of its end.
    """

    created_at_ms: int
    updated_at_ms: int | None = None
    state: StandingState = "pending"
    failed_because: FailedBecause | None = None
    due_at_ms: int | None = None
    attempts_spent: int = 0
    max_attempts: int | None = None
    failure: Failure | None = None
    first_failed_at_ms: int | None = None
    failure_history: tuple[Cycle, ...] = ()


class Foreign(Struct, frozen=True):
    """A record of another program: the request, and its state."""

    request: Request
    state: ForeignState


def adopt(new: New, foreign_state: ForeignState) -> New:
    """A prepared request (see `Admission.prepare`), in the state that the other program left.

    What the route suppresses at intake stays suppressed.
    """
    _check(foreign_state)
    updated_at_ms = foreign_state.updated_at_ms or foreign_state.created_at_ms
    delivery = replace(
        new.delivery,
        created_at_ms=foreign_state.created_at_ms,
        updated_at_ms=updated_at_ms,
        attempts_spent=foreign_state.attempts_spent,
        # Its attempts are in no ledger here, but their numbers are used up.
        attempts_ended=foreign_state.attempts_spent,
        max_attempts=foreign_state.max_attempts,
        failure=foreign_state.failure or new.delivery.failure,
        first_failed_at_ms=foreign_state.first_failed_at_ms,
        failure_history=foreign_state.failure_history,
        cycle=len(foreign_state.failure_history) + 1,
    )
    if foreign_state.state != "pending":
        delivery = _ended(delivery, foreign_state, updated_at_ms)
    elif delivery.is_terminal:
        delivery = replace(delivery, ended_at_ms=updated_at_ms)
    else:
        due_at_ms = foreign_state.due_at_ms
        due_at_ms = foreign_state.created_at_ms if due_at_ms is None else due_at_ms
        delivery = replace(delivery, due_at_ms=due_at_ms)
    return replace(new, delivery=delivery)


def _check(foreign_state: ForeignState) -> None:
    if foreign_state.attempts_spent < 0:
        raise InvalidRequest("attempts", "must be 0 or more")
    has_reason = foreign_state.failed_because is not None
    if foreign_state.state != "dismissed" and (foreign_state.state == "failed") is not has_reason:
        raise InvalidRequest("status", "only a failed record has a reason, and it always has one")


def _ended(delivery: Delivery, foreign_state: ForeignState, at_ms: int) -> Delivery:
    ended = replace(
        delivery,
        state=foreign_state.state,
        failed_because=foreign_state.failed_because,
        due_at_ms=None,
        ended_at_ms=at_ms,
    )
    if foreign_state.state != "delivered":
        return ended
    return replace(
        ended,
        receipt=Receipt(accepted_at_ms=at_ms, evidence="late"),
        recipients=tuple([replace(each, outcome="accepted") for each in delivery.recipients]),
    )
