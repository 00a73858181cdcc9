"""What a purge may remove, and what it never removes: one table for all stores.

A delivery that has not ended is never removed, whatever the rule names. An open dead letter
(`failed`) and its payload are removed only where the rule names that state; a rule that names no
state means the other ends. The attempts of a delivery that has not ended stay with it. A child is
kept as long as its parent's record: a replay of the parent must find it. The oldest are removed
first, as many as the rule allows.
"""

from __future__ import annotations

from msgspec import Struct

from homing.domain.delivery import TERMINAL_STATES, Delivery, State
from homing.ports import PurgeKind, PurgeRule

CLOSED_STATES: frozenset[State] = TERMINAL_STATES - {"failed"}


class Purge(Struct, frozen=True, kw_only=True):
    """How one kind of record is selected: its `time` is before that of the rule.

    The other fields say which conditions of the rule apply to it.
    """

    time: str
    by_state: bool = False
    by_route: bool = False
    by_fact_kind: bool = False
    keeps_family: bool = False
    keeps_open: bool = False


PURGES: dict[PurgeKind, Purge] = {
    "delivery": Purge(time="ended_at_ms", by_state=True, by_route=True, keeps_family=True),
    # Payload and results are emptied; the record stays.
    "payload": Purge(time="ended_at_ms", by_state=True, by_route=True),
    # By the route that the delivery had when the attempt ended.
    "attempts": Purge(time="ended_at_ms", by_route=True, keeps_open=True),
    "keys": Purge(time="expires_at_ms"),
    "facts": Purge(time="at_ms", by_fact_kind=True),
}


def purged_states(rule: PurgeRule) -> frozenset[State]:
    """The states that a rule applies to."""
    return TERMINAL_STATES.intersection(rule.states or CLOSED_STATES)


def is_open(delivery: Delivery | None) -> bool:
    """Whether it exists and has not ended."""
    return delivery is not None and delivery.state not in TERMINAL_STATES
