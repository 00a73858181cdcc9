"""A store has found that what it knows of a delivery may be too old."""

from __future__ import annotations

from homing.domain.delivery import Change, Delivery
from homing.domain.failure import STORE_DAMAGED, Failure
from homing.domain.transitions.attempts import note_failure
from homing.domain.transitions.endings import end_failed_with
from homing.domain.transitions.table import transition

_DETAIL = "a line about it was damaged: it is unknown whether it was sent"
# A store finds damage before any route is known, so no plan can say which notices are due. These
# are the ones that dead letters have on most routes; a notice that a route does not have is not
# given.
_NOTICES = ("dead_letter", "alert")


@transition(sources=("pending", "in_flight", "waiting"), targets=("failed",))
def hold_for_damage(delivery: Delivery, *, now_ms: int) -> Change:
    """Its newest record in the store was damaged: held for a person, because it may have been sent.

    The record before the damaged one is an older state, from which it would be sent again. No
    attempt is counted.
    """
    failure = Failure(STORE_DAMAGED, detail=_DETAIL, maybe_sent=True)
    in_doubt = note_failure(delivery, failure, now_ms)
    return end_failed_with(in_doubt, "uncertain", _NOTICES, now_ms)
