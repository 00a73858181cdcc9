"""Every change of a delivery's state, as pure functions. No other code changes state.

Each transition declares from which states it may start and in which it may end; the declared
table is enforced at every call and drawn in docs/STATE_MACHINE.md. Stores apply one of them by
themselves, `claim`, and nothing else.
"""

from homing.domain.transitions.claiming import (
    claim,
    end_lease,
    keep_claim,
    mark_committing,
    note_interruption,
    release,
    suspicion,
    try_alone,
)
from homing.domain.transitions.declaring import EDGES, Edge
from homing.domain.transitions.families import fail_with_children, fan_out, keep_waiting
from homing.domain.transitions.moves import overspent
from homing.domain.transitions.outcomes import (
    advance,
    await_evidence,
    dispel_doubt,
    fail,
    give_up,
    settle_found,
    succeed,
    suppress,
    suppress_at_intake,
    waive_doubt,
)
from homing.domain.transitions.repairing import (
    amend,
    cancel,
    clone,
    confirm,
    dismiss,
    mark_notified,
    replay,
    restart,
    restore,
)

__all__ = [
    "EDGES",
    "Edge",
    "advance",
    "amend",
    "await_evidence",
    "cancel",
    "claim",
    "clone",
    "confirm",
    "dismiss",
    "dispel_doubt",
    "end_lease",
    "fail",
    "fail_with_children",
    "fan_out",
    "give_up",
    "keep_claim",
    "keep_waiting",
    "mark_committing",
    "mark_notified",
    "note_interruption",
    "overspent",
    "release",
    "replay",
    "restart",
    "restore",
    "settle_found",
    "succeed",
    "suppress",
    "suppress_at_intake",
    "suspicion",
    "try_alone",
    "waive_doubt",
]
