"""A delivery with children: it waits for them, and their outcomes determine its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

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
    """One delivery creates several children and waits until they have ended."""
    after = replace(
        to_state(delivery, due_at_ms=None, now_ms=now_ms), state="waiting", fanned_out=True
    )
    return Change(after, children=children, results=result_of_stage(delivery, result))


@transition(sources=("in_flight",), targets=("waiting",))
def keep_waiting(delivery: Delivery, *, now_ms: int) -> Change:
    """It was claimed, but some children have not ended yet."""
    return Change(replace(to_state(delivery, due_at_ms=None, now_ms=now_ms), state="waiting"))


@transition(sources=("in_flight",), targets=("failed",))
def fail_with_children(
    delivery: Delivery,
    reasons: Mapping[FailedBecause, int],
    *,
    plan: Plan,
    now_ms: int,
    handlers: Sequence[Delivery] = (),
) -> Change:
    """All children have ended and required ones failed; it fails with the most serious reason.

    `handlers` are the first of these if they are handlers of an event. The event's own record then
    has their errors, because handlers are not listed as events of their own.
    """
    failed = sum(reasons.values())
    detail = f"required children that failed: {failed}"
    if handlers:
        delivery = replace(
            delivery,
            attempts_spent=max(child.attempts_spent for child in handlers),
            first_failed_at_ms=min(child.first_failed_at_ms or now_ms for child in handlers),
        )
        detail = "; ".join(map(_error_of_handler, handlers))
        if failed > len(handlers):
            detail += f"; and {failed - len(handlers)} more"
    failure = Failure(CHILDREN_FAILED, "reject", detail=detail)
    because = next(reason for reason in _GRAVEST_FIRST if reasons.get(reason))
    return end_failed(note_failure(delivery, failure, now_ms), because, plan, now_ms)


def _error_of_handler(child: Delivery) -> str:
    failure = child.failure
    error = (failure.detail or failure.error_class) if failure else child.failed_because
    return f"{child.metadata['handler']}: {error}"
