"""A plan removes every row that belongs to a removed record."""

from __future__ import annotations

from homing.domain.delivery import Change, Delivery, Recipient
from homing.domain.writes import write_of_change, write_of_new
from homing.ports import Put
from homing.stores.judging import Known, judge
from homing.stores.sql.planning import Plan, plan_of
from homing.testing import samples

ADDRESS = "old@example.org"


def stored() -> Delivery:
    return samples.delivery("d1", recipients=(Recipient(ADDRESS),))


def plan(*puts: Put) -> Plan:
    return plan_of(judge(puts, Known(deliveries={"d1": stored()})))


def removal() -> Put:
    return Put([write_of_change(Change(stored(), forget=True))])


def test_the_addresses_of_a_removed_delivery_are_removed() -> None:
    """No read finds such rows, and they are personal data."""
    planned = plan(removal())

    assert planned.removed == [stored()]
    assert planned.recipients_gone == [(ADDRESS, "d1")]


def test_the_addresses_of_a_replaced_delivery_are_removed() -> None:
    planned = plan(removal(), Put([write_of_new(samples.new("d1"))]))

    assert planned.recipients_gone == [(ADDRESS, "d1")]
    assert [effect.after for effect in planned.new] == [samples.delivery("d1")]
