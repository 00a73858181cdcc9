"""How a delivery begins when it is not simply pending: claimed by its acceptor, or suppressed."""

from __future__ import annotations

from msgspec.structs import replace

from homing.domain.delivery import Change, Delivery, Phase
from homing.domain.failure import Failure
from homing.domain.transitions.states import end
from homing.domain.transitions.table import transition


@transition(sources=("pending",), targets=("in_flight",))
def accept_claimed(delivery: Delivery, *, holder: str, phase: Phase, lease_until_ms: int) -> Change:
    """Stored already claimed by the process that accepts it: no other worker can start it first."""
    return Change(
        replace(
            delivery,
            state="in_flight",
            holder=holder,
            phase=phase,
            unsettled_claims=1,
            claimed_at_ms=delivery.created_at_ms,
            due_at_ms=lease_until_ms,
        )
    )


@transition(sources=("pending",), targets=("suppressed",))
def suppress_at_intake(delivery: Delivery, reason: str, *, now_ms: int) -> Change:
    """Skipped on purpose before it is stored: no attempt is ever made."""
    failure = Failure("suppressed", "suppress", detail=reason)
    return Change(replace(end(delivery, "suppressed", now_ms), failure=failure))
