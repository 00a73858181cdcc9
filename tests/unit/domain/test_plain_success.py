"""The short way of a success gives the same as the long one, which looks at every recipient."""

from __future__ import annotations

import itertools

import pytest
from msgspec.structs import replace

from homing.domain import transitions
from homing.domain.delivery import Delivery, Phase, Receipt, Recipient
from homing.domain.policy import Plan
from homing.domain.transitions.outcomes import succeed_in_part
from homing.domain.transitions.plain_success import succeed_plainly
from tests.unit.domain.lives import NOW_MS, SEND, claimed, marked, pending, plan

DELIVERIES: tuple[Delivery, ...] = (
    claimed(),
    marked(),
    claimed(pending(parent_id="p", notices_due=("log",), attempts_spent=1, attempts_ended=4)),
    claimed(pending(recipients=(Recipient("a@b.c"), Recipient("d@e.f", "accepted", "250")))),
    replace(claimed(), crashes=2, interruptions=2, tried_alone=True, interruption_noted=True),
    claimed(pending(doubt_waived=True, earlier_maybe_sent=True, maybe_duplicate=True, cycle=2)),
)
PLANS: tuple[Plan, ...] = (
    SEND,
    plan(inline_counts=False, keep_delivered=False),
    plan(notify_on_delivered=("log", "alert"), keep_delivered=False),
)
RECEIPTS = (None, Receipt("n-1"), Receipt("n-2", accepted_at_ms=5))


@pytest.mark.parametrize("phase", ["worker", "inline"])
@pytest.mark.parametrize("result", [None, b"page"])
def test_both_ways_lead_to_the_same_change(phase: Phase, result: bytes | None) -> None:
    for one, by_plan, receipt in itertools.product(DELIVERIES, PLANS, RECEIPTS):
        delivery = replace(one, phase=phase)
        short = succeed_plainly(delivery, by_plan, NOW_MS, receipt, result)
        long = succeed_in_part(delivery, by_plan, NOW_MS, 0.0, receipt, {}, result)
        assert short == long


def test_the_transition_succeeds_plainly_where_no_recipient_and_no_doubt_stands() -> None:
    for delivery, by_plan, receipt in itertools.product(DELIVERIES, PLANS, RECEIPTS):
        if delivery.recipients or delivery.maybe_sent_at_ms:
            continue
        change = transitions.succeed(
            delivery, plan=by_plan, now_ms=NOW_MS, roll=0.0, receipt=receipt
        )
        assert change == succeed_plainly(delivery, by_plan, NOW_MS, receipt, None)
