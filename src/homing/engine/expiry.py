"""When each class of record expires: for stores that set an expiry, and for purges."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from homing.domain.delivery import Attempt, Delivery, State
from homing.domain.policy import Retention
from homing.ports import PurgeKind, PurgeRule

DELIVERY_KEPT: dict[State, str] = {
    "delivered": "delivered_s",
    "suppressed": "delivered_s",
    "dismissed": "dismissed_s",
    "failed": "failed_s",
}
"""Which time of a Retention applies to an ended delivery."""
PAYLOAD_KEPT: dict[State, str] = {
    "delivered": "payload_s",
    "suppressed": "payload_s",
    "dismissed": "payload_s",
    "failed": "failed_payload_s",
}

PURGED_BY_ROUTE = frozenset({*DELIVERY_KEPT.values(), *PAYLOAD_KEPT.values(), "attempts_s"})
"""The times of a Retention that purges use. Keys and dead letters carry times of their own."""


def delivery_gone_at_ms(delivery: Delivery, retention: Retention) -> int | None:
    """None while it is open, or if it is kept for ever."""
    name = DELIVERY_KEPT.get(delivery.state)
    return None if name is None else _after(delivery.ended_at_ms, getattr(retention, name))


def dead_letter_gone_at_ms(delivery: Delivery, retention: Retention) -> int | None:
    return _after(delivery.ended_at_ms, retention.dead_letter_s)


def attempt_gone_at_ms(attempt: Attempt, retention: Retention) -> int | None:
    return _after(attempt.ended_at_ms, retention.attempts_s)


def _after(at_ms: int | None, kept_s: float | None) -> int | None:
    return None if at_ms is None or kept_s is None else at_ms + round(kept_s * 1000)


def purge_rules(route: str, retention: Retention, now_ms: int) -> list[PurgeRule]:
    """What may be removed of a route now; records that are kept for ever have no rule."""
    rules = _rules_by_state("delivery", DELIVERY_KEPT, retention)
    rules += _rules_by_state("payload", PAYLOAD_KEPT, retention)
    rules.append(("attempts", (), retention.attempts_s))
    return [
        PurgeRule(what=what, route=route, states=states, before_ms=now_ms - round(kept_s * 1000))
        for what, states, kept_s in rules
        if kept_s is not None
    ]


_Rule: TypeAlias = tuple[PurgeKind, tuple[State, ...], float | None]


def _rules_by_state(
    what: PurgeKind, kept: Mapping[State, str], retention: Retention
) -> list[_Rule]:
    """States that are kept for the same time share a rule."""
    names = dict.fromkeys(kept.values())
    return [
        (what, tuple(state for state in kept if kept[state] == name), getattr(retention, name))
        for name in names
    ]
