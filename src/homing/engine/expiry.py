"""When each class of record expires: computed once, for stores that set an expiry."""

from __future__ import annotations

from homing.domain.delivery import Attempt, Delivery, State
from homing.domain.policy import Retention

DELIVERY_KEPT: dict[State, str] = {
    "delivered": "delivered_s",
    "suppressed": "delivered_s",
    "dismissed": "dismissed_s",
    "failed": "failed_s",
}
"""Which time of a Retention holds for an ended delivery."""


def delivery_gone_at_ms(delivery: Delivery, retention: Retention) -> int | None:
    """None while it is open, and where it is kept for ever."""
    name = DELIVERY_KEPT.get(delivery.state)
    return None if name is None else _after(delivery.ended_at_ms, getattr(retention, name))


def dead_letter_gone_at_ms(delivery: Delivery, retention: Retention) -> int | None:
    return _after(delivery.ended_at_ms, retention.dead_letter_s)


def attempt_gone_at_ms(attempt: Attempt, retention: Retention) -> int | None:
    return _after(attempt.ended_at_ms, retention.attempts_s)


def _after(at_ms: int | None, kept_s: float | None) -> int | None:
    return None if at_ms is None or kept_s is None else at_ms + round(kept_s * 1000)
