"""A record of another program goes on here where it stands."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from homing.domain.delivery import New, Receipt, Recipient
from homing.domain.errors import InvalidRequest
from homing.domain.failure import Failure
from homing.domain.writes import write_of_new
from homing.engine.intake.adopting import ForeignState, adopt
from homing.testing import samples
from homing.testing.samples import NOW_MS

THEN_MS = NOW_MS - 90_000


def adopted(**foreign_state: Any) -> New:
    new = samples.keyed("d1", "k", key_term_s=60.0, recipients=(Recipient("ann@example.org"),))
    return adopt(new, ForeignState(created_at_ms=THEN_MS, **foreign_state))


def test_a_new_record_is_due_since_it_was_made() -> None:
    delivery = adopted().delivery

    assert (delivery.state, delivery.due_at_ms) == ("pending", THEN_MS)
    assert (delivery.created_at_ms, delivery.updated_at_ms) == (THEN_MS, THEN_MS)


def test_attempts_made_elsewhere_are_spent_and_numbered_on() -> None:
    failure = Failure("imported", code="451")
    delivery = adopted(
        attempts_spent=3, max_attempts=7, due_at_ms=NOW_MS + 5, failure=failure
    ).delivery

    assert (delivery.attempts_spent, delivery.attempts_ended, delivery.max_attempts) == (3, 3, 7)
    assert (delivery.due_at_ms, delivery.failure) == (NOW_MS + 5, failure)


def test_what_was_delivered_has_evidence_from_elsewhere() -> None:
    new = adopted(state="delivered", updated_at_ms=NOW_MS)

    delivery = new.delivery
    assert (delivery.state, delivery.ended_at_ms, delivery.due_at_ms) == ("delivered", NOW_MS, None)
    assert delivery.receipt == Receipt(accepted_at_ms=NOW_MS, evidence="late")
    assert [each.outcome for each in delivery.recipients] == ["accepted"]
    assert [key.expires_at_ms for key in write_of_new(new).keys] == [NOW_MS + 60_000]


def test_what_failed_keeps_its_reason() -> None:
    delivery = adopted(state="failed", failed_because="rejected").delivery

    assert (delivery.state, delivery.failed_because) == ("failed", "rejected")
    assert (delivery.ended_at_ms, delivery.receipt) == (THEN_MS, None)


def test_what_the_route_suppresses_stays_suppressed() -> None:
    suppressed = samples.new("d1", state="suppressed", due_at_ms=None, ended_at_ms=NOW_MS)

    delivery = adopt(suppressed, ForeignState(created_at_ms=THEN_MS, due_at_ms=NOW_MS)).delivery

    assert (delivery.state, delivery.due_at_ms) == ("suppressed", None)
    assert delivery.ended_at_ms == THEN_MS


def test_what_was_asked_for_is_kept() -> None:
    new = samples.keyed("d1", "k", payload=b"asked", facts=[samples.fact("f")])

    after = adopt(new, ForeignState(created_at_ms=THEN_MS))

    assert replace(after, delivery=new.delivery) == new


@pytest.mark.parametrize(
    "wrong",
    [
        {"attempts_spent": -1},
        {"state": "failed"},
        {"state": "delivered", "failed_because": "rejected"},
    ],
)
def test_a_standing_that_cannot_be_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest):
        adopted(**wrong)
