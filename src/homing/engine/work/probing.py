"""Probes: single messages that show whether a paused route works again."""

from __future__ import annotations

from homing.domain.failure import TIMED_OUT
from homing.engine.work.claimed_work import ClaimedWork

# Failures that leave open whether a paused route works again.
NO_ANSWER = frozenset({"connect_failed", TIMED_OUT})


def found_fault(work: ClaimedWork) -> bool:
    """Rather not the next probe: the message that found the fault may itself be the reason."""
    failure = work.delivery.failure
    return failure is not None and failure.disposition == "route_fault"


def shows_recovery(work: ClaimedWork) -> bool:
    """Any answer to a probe but another route fault shows that the route works again.

    A stage before the send asks no provider, so that its outcome shows nothing.
    """
    if not work.stage.sends and any(stage.sends for stage in work.plan.stages):
        return False
    failure = work.delivery.failure
    if work.settled == "fail":
        return not (failure is None or found_fault(work) or failure.error_class in NO_ANSWER)
    return work.settled in ("succeed", "advance", "suppress", "fan_out")
