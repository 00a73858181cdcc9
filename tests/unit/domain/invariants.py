"""What holds of every delivery, and of every change from one to the next."""

from __future__ import annotations

import msgspec

from homing.domain.delivery import TERMINAL_STATES, Change, Delivery
from homing.domain.failure import STORE_DAMAGED
from homing.domain.policy import Plan


def check_change(before: Delivery, change: Change, plan: Plan) -> None:
    """Between before and after: version, ledger, recipients, family, notices."""
    after = change.delivery
    claimed_anew = after.unsettled_claims == before.unsettled_claims + 1
    assert after.version == before.version + int(claimed_anew)
    _check_ledger(before, change)
    _check_recipients(before, after)
    ended = int(after.is_terminal) - int(before.is_terminal)
    assert change.child_delta == (-ended if before.parent_id else 0)
    if after.state == "failed" and before.state not in ("failed", "dismissed"):
        assert "alert" in after.notices_due
        assert set(plan.notify_on_failed) <= set(after.notices_due) or _is_of_damage(after)


def check_delivery(now: Delivery, plan: Plan) -> None:
    """Whatever has happened to it so far."""
    _check_fields_of_state(now)
    assert now.attempts_spent <= plan.stage(now.stage).retry.max_attempts
    assert now.crashes <= now.attempts_ended
    assert [cycle.number for cycle in now.failure_history] == list(range(1, now.cycle))
    if now.state == "delivered":
        assert {r.outcome for r in now.recipients} <= {"accepted"}
        assert now.receipt is not None
    packed = msgspec.msgpack.encode(now)
    assert msgspec.msgpack.decode(packed, type=Delivery) == now


def check_doubt(now: Delivery, maybe_reached: set[str]) -> None:
    """Maybe sent is never called not sent; `maybe_reached` is what the test itself knows."""
    unnoted = now.committing and now.unsettled_claims > 1
    if maybe_reached and not unnoted:
        assert now.possibly_sent
        assert now.failed_because in (None, "uncertain")
        assert now.state not in ("suppressed", "delivered")


def _is_of_damage(delivery: Delivery) -> bool:
    """Its store ended it, which knows no plan."""
    return delivery.failure is not None and delivery.failure.error_class == STORE_DAMAGED


def _check_ledger(before: Delivery, change: Change) -> None:
    numbers = [attempt.number for attempt in change.ended]
    assert numbers == list(
        range(before.attempts_ended + 1, before.attempts_ended + 1 + len(numbers))
    )
    assert change.delivery.attempts_ended == before.attempts_ended + len(numbers)
    assert all(a.cycle == before.cycle and a.stage == before.stage for a in change.ended)


def _check_recipients(before: Delivery, after: Delivery) -> None:
    assert [r.address for r in after.recipients] == [r.address for r in before.recipients]
    for was, now in zip(before.recipients, after.recipients, strict=True):
        assert was.outcome != "accepted" or now == was


def _check_fields_of_state(now: Delivery) -> None:
    if now.state != "dismissed":
        assert (now.failed_because is not None) == (now.state == "failed")
    assert (now.ended_at_ms is not None) == (now.state in TERMINAL_STATES)
    assert (now.holder is not None) == (now.state == "in_flight")
    assert (now.claimed_at_ms is not None) == (now.state == "in_flight")
    assert (now.due_at_ms is not None) == (now.state in ("pending", "in_flight"))
    assert now.state == "in_flight" or (not now.committing and now.unsettled_claims == 0)
