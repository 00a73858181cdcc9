"""Adopts a delivery from the record of another program, in the state it had there."""

from __future__ import annotations

from typing import Literal, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from homing.domain.delivery import Delivery, FailedBecause, New, Receipt
from homing.domain.errors import InvalidRequest
from homing.domain.failure import Failure
from homing.engine.request import Request

StandingState: TypeAlias = Literal["pending", "delivered", "suppressed", "failed", "dismissed"]


class Standing(Struct, frozen=True, kw_only=True):
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


class Foreign(Struct, frozen=True):
    """A record of another program: the request, and its state."""

    request: Request
    standing: Standing


def adopt(new: New, standing: Standing) -> New:
    """A prepared request (see `Admission.prepare`), in the state that the other program left.

    What the route suppresses at intake stays suppressed.
    """
    _check(standing)
    updated_at_ms = standing.updated_at_ms or standing.created_at_ms
    delivery = replace(
        new.delivery,
        created_at_ms=standing.created_at_ms,
        updated_at_ms=updated_at_ms,
        attempts_spent=standing.attempts_spent,
        # Its attempts are in no ledger here, but their numbers are used up.
        attempts_ended=standing.attempts_spent,
        max_attempts=standing.max_attempts,
        failure=standing.failure or new.delivery.failure,
    )
    if standing.state != "pending":
        delivery = _ended(delivery, standing, updated_at_ms)
    elif delivery.is_terminal:
        delivery = replace(delivery, ended_at_ms=updated_at_ms)
    else:
        due_at_ms = standing.due_at_ms
        due_at_ms = standing.created_at_ms if due_at_ms is None else due_at_ms
        delivery = replace(delivery, due_at_ms=due_at_ms)
    return replace(new, delivery=delivery)


def _check(standing: Standing) -> None:
    if standing.attempts_spent < 0:
        raise InvalidRequest("attempts", "must be 0 or more")
    if (standing.state == "failed") is not (standing.failed_because is not None):
        raise InvalidRequest("status", "only a failed record has a reason, and it always has one")


def _ended(delivery: Delivery, standing: Standing, at_ms: int) -> Delivery:
    ended = replace(
        delivery,
        state=standing.state,
        failed_because=standing.failed_because,
        due_at_ms=None,
        ended_at_ms=at_ms,
    )
    if standing.state != "delivered":
        return ended
    return replace(
        ended,
        receipt=Receipt(accepted_at_ms=at_ms, evidence="late"),
        recipients=tuple([replace(each, outcome="accepted") for each in delivery.recipients]),
    )
