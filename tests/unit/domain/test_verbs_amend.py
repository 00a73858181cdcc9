"""A corrected envelope never forgets who has the message already."""

from __future__ import annotations

from homing.domain import transitions
from homing.domain.delivery import Delivery, Recipient
from homing.domain.policy import Plan, Stage

PLAN = Plan(stages=(Stage(name="send"),))


def test_an_amended_envelope_keeps_whoever_has_it_already() -> None:
    delivery = Delivery(
        id="d",
        route="mail",
        lane="mail",
        stage="send",
        created_at_ms=1,
        updated_at_ms=1,
        state="failed",
        failed_because="rejected",
        recipients=(Recipient("ann@x.org", "accepted"), Recipient("bob@x.org", "refused")),
    )

    change = transitions.amend(delivery, b"new", plan=PLAN, now_ms=2, addresses=("robert@x.org",))

    assert [(r.address, r.outcome) for r in change.delivery.recipients] == [
        ("ann@x.org", "accepted"),
        ("robert@x.org", "open"),
    ]
