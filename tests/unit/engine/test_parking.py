"""A fault of the route stops the route, and is told once (I19)."""

from __future__ import annotations

import pytest

from homing.domain.failure import Failure
from homing.engine.parking import PARKED, Parking
from homing.stores.memory import MemoryStore
from homing.testing.clocks import ManualClock
from tests.unit.engine.world import route

FAULT = Failure("auth_failed", "route_fault", code="535", detail="bad credentials")
ROUTE = route(name="mail")


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


@pytest.fixture
def parking(store: MemoryStore) -> Parking:
    return Parking(store, ManualClock())


def test_the_first_fault_parks_and_further_ones_add_nothing(parking: Parking) -> None:
    [fact] = parking.by_fault(ROUTE, FAULT)

    assert parking.is_parked("mail")
    assert (fact.kind, fact.key) == (PARKED, "mail")
    assert fact.value is not None
    assert (fact.value["reason"], fact.value["error_class"]) == ("bad credentials", "auth_failed")
    assert parking.by_fault(ROUTE, FAULT) == ()


def test_another_route_goes_on(parking: Parking) -> None:
    parking.by_fault(ROUTE, FAULT)

    assert not parking.is_parked("event")


async def test_a_fault_is_probed_but_what_a_person_parked_stays_parked(parking: Parking) -> None:
    parking.by_fault(ROUTE, FAULT)
    await parking.park("event", actor="ann", reason="migration")

    assert parking.may_probe("mail")
    assert parking.is_parked("event")
    assert not parking.may_probe("event")
    assert not parking.may_probe("unknown")


async def test_other_processes_see_it_and_see_it_end(store: MemoryStore, parking: Parking) -> None:
    other = Parking(store, ManualClock())
    await parking.park("mail", actor="ann", reason="migration")

    await other.refresh()
    assert other.is_parked("mail")

    await other.unpark("mail")
    await parking.refresh()
    assert not parking.is_parked("mail")


async def test_a_fault_is_told_once(store: MemoryStore, parking: Parking) -> None:
    await store.save([], list(parking.by_fault(ROUTE, FAULT)))
    [fact] = parking.unalerted()

    await parking.mark_alerted(fact)

    assert parking.unalerted() == []
    await parking.refresh()
    assert parking.unalerted() == []
    assert parking.is_parked("mail")


async def test_what_a_person_parked_needs_no_alert(parking: Parking) -> None:
    await parking.park("mail", actor="ann", reason="migration")

    assert parking.unalerted() == []
