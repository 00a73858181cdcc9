"""The history of a delivery in the console is in the order in which it happened."""

from __future__ import annotations

from homing.domain import transitions
from homing.domain.delivery import Delivery
from homing.engine.ops.views import AuditView, delivery_view
from homing.web.console.timeline import timeline
from tests.unit.domain.lives import MINUTE_MS, NOW_MS, failed


def titles(delivery: Delivery, *acts: tuple[int, str]) -> list[str]:
    audit = [AuditView(at_ms=at_ms, actor="ann", verb=verb, reason="") for at_ms, verb in acts]
    return [moment.title for moment in timeline(delivery, delivery_view(delivery, None), [], audit)]


def test_a_dead_letter_was_one_before_it_was_dismissed_and_restored() -> None:
    dismiss, restore = NOW_MS + MINUTE_MS, NOW_MS + 2 * MINUTE_MS
    dismissed = transitions.dismiss(failed(), now_ms=dismiss).delivery
    restored = transitions.restore(dismissed, now_ms=restore).delivery

    dead = "became a dead letter: refused permanently"
    assert titles(dismissed, (dismiss, "dismiss"))[1:] == [dead, "ann dismissed it"]
    assert titles(restored, (dismiss, "dismiss"), (restore, "restore"))[1:] == [
        dead,
        "ann dismissed it",
        "ann restored it",
    ]
