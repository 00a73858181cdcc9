"""Which write follows from a new delivery or a change: the rules that no store knows."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from homing.domain import transitions
from homing.domain.delivery import Change
from homing.domain.writes import Count, write_of_change, write_of_new
from homing.testing import samples
from homing.testing.samples import NOW_MS


@pytest.mark.parametrize(
    ("fields", "wakes"),
    [
        ({"state": "pending"}, True),
        ({"state": "waiting"}, True),
        ({"state": "in_flight", "holder": "w1", "due_at_ms": NOW_MS + 1}, False),
        ({"state": "in_flight", "holder": "w1", "due_at_ms": NOW_MS}, True),
        ({"state": "in_flight", "holder": None, "due_at_ms": 0}, True),
        ({"state": "delivered"}, False),
        ({"state": "failed"}, False),
    ],
)
def test_what_may_be_due_wakes(fields: dict[str, Any], wakes: bool) -> None:
    assert write_of_new(samples.new("d1", **fields)).wakes is wakes
    assert write_of_change(Change(samples.delivery("d1", **fields))).wakes is wakes


def test_a_child_that_ends_wakes_for_its_parent() -> None:
    write = write_of_change(samples.ended(samples.delivery("a", parent_id="p"), at_ms=NOW_MS + 3))

    assert write.count == Count("p", -1, NOW_MS + 3)
    assert write.wakes


def test_an_ended_lease_wakes() -> None:
    held = transitions.claim(
        samples.delivery("d1"), holder="w1", now_ms=NOW_MS, lease_until_ms=NOW_MS + 9
    ).delivery

    assert write_of_change(transitions.end_lease(held, now_ms=NOW_MS + 1)).wakes


def test_only_a_waiting_delivery_is_due_at_zero() -> None:
    assert write_of_new(samples.new("d1", state="waiting")).due_at_zero_ms == NOW_MS
    assert write_of_new(samples.new("d1")).due_at_zero_ms is None


def test_an_open_child_is_counted_and_an_ended_one_is_not() -> None:
    children = [samples.child("a", "p"), samples.child("b", "p", state="suppressed")]

    write = write_of_new(samples.new("p", children=children))

    assert [child.opens for child in write.children] == [1, 0]


def test_a_replaced_payload_is_kept_under_its_number() -> None:
    change = Change(samples.delivery("d1", payload_no=3), payload=b"", drop_results=True)

    write = write_of_change(change)

    assert (write.keep_payload_as, write.payload) == ("payload.2", b"")
    assert write.drop_results_but == "payload."
    assert not write.is_plain


def test_an_ended_delivery_keeps_every_key_but_its_own_for_ever() -> None:
    new = samples.keyed(
        "d1", "k", key_term_s=1.5, state="suppressed", ended_at_ms=NOW_MS, due_at_ms=None
    )
    other = samples.key("k", "d1", source="another")

    write = write_of_new(replace(new, keys=(*new.keys, other)))

    assert [key.expires_at_ms for key in write.keys] == [NOW_MS + 1500, None]
