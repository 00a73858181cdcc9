"""Every change of a delivery's state, as pure functions. No other Python code changes state.

Each transition declares from which states it may start and in which it may end; the declared
table is enforced at every call and drawn in docs/STATE_MACHINE.md. The engine asks for most of
them. Stores apply two by themselves: `claim`, and `hold_for_damage` when the JSONL store finds a
damaged line. The SQL stores claim by a statement, which the contract suite compares with `claim`
field by field.

What begins in a later state is no change of state: records of other programs are adopted in the
state that these left (`homing.engine.intake.adopting`).

One exception is made outside: a package with SQL files of its own may let operators change its rows
by statements, in programs without Homing. Its tests compare them with these functions, and
docs/invariants.md says what they cost.
"""

from homing.domain.transitions.attempts import overspent
from homing.domain.transitions.children import fail_with_children, fan_out, keep_waiting
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
from homing.domain.transitions.doubt import (
    await_evidence,
    dispel_doubt,
    hold_for_damage,
    rely_on_token,
    settle_found,
    waive_doubt,
)
from homing.domain.transitions.endings import mark_notified
from homing.domain.transitions.intake import accept_claimed, suppress_at_intake
from homing.domain.transitions.operator import (
    amend,
    cancel,
    clone,
    confirm,
    dismiss,
    replay,
    restart,
    restore,
)
from homing.domain.transitions.outcomes import advance, dead_letter, fail, succeed, suppress
from homing.domain.transitions.table import EDGES, Edge

__all__ = [
    "EDGES",
    "Edge",
    "accept_claimed",
    "advance",
    "amend",
    "await_evidence",
    "cancel",
    "claim",
    "clone",
    "confirm",
    "dead_letter",
    "dismiss",
    "dispel_doubt",
    "end_lease",
    "fail",
    "fail_with_children",
    "fan_out",
    "hold_for_damage",
    "keep_claim",
    "keep_waiting",
    "mark_committing",
    "mark_notified",
    "note_interruption",
    "overspent",
    "release",
    "rely_on_token",
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
