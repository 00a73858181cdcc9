"""A delivery that became several: it waits for its children and ends by their outcomes."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from homing.domain.delivery import Change, Delivery, FailedBecause, New
from homing.domain.failure import CHILDREN_FAILED, Failure
from homing.domain.policy import Plan
from homing.domain.transitions.attempts import note_failure
from homing.domain.transitions.endings import end_failed
from homing.domain.transitions.states import result_of_stage, to_state
from homing.domain.transitions.table import transition

_GRAVEST_FIRST: tuple[FailedBecause, ...] = (
    "uncertain",
    "exhausted",
    "rejected",
    "poison",
    "expired",
)


@transition(sources=("in_flight",), targets=("waiting",))
def fan_out(
    delivery: Delivery, children: tuple[New, ...], *, now_ms: int, result: bytes | None = None
) -> Change:
    """One delivery becomes several: it waits until its children have ended."""
    after = replace(
        to_state(delivery, due_at_ms=None, now_ms=now_ms), state="waiting", fanned_out=True
    )
    return Change(after, children=children, results=result_of_stage(delivery, result))


@transition(sources=("in_flight",), targets=("waiting",))
def keep_waiting(delivery: Delivery, *, now_ms: int) -> Change:
    """It was claimed, but some children are still under way."""
    return Change(replace(to_state(delivery, due_at_ms=None, now_ms=now_ms), state="waiting"))


@transition(sources=("in_flight",), targets=("failed",))
def fail_with_children(
    delivery: Delivery, reasons: Mapping[FailedBecause, int], *, plan: Plan, now_ms: int
) -> Change:
    """All children have ended and required ones failed; the gravest reason is taken over."""
    failed = sum(reasons.values())
    failure = Failure(CHILDREN_FAILED, "reject", detail=f"required children that failed: {failed}")
    because = next(reason for reason in _GRAVEST_FIRST if reasons.get(reason))
    return end_failed(note_failure(delivery, failure, now_ms), because, plan, now_ms)
