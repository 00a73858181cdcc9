"""A fault of the route stops the route, and is told once (I19)."""

from __future__ import annotations

from typing import Any

import pytest

from homing.domain.delivery import Fact
from homing.domain.failure import Failure
from homing.engine.process.parking import PARKED, RATE_LIMIT_ALERT_AFTER_S, Parking, parked_routes
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


async def test_a_rate_limit_is_told_only_if_it_lasts() -> None:
    clock = ManualClock()
    parking = Parking(MemoryStore(), clock)
    [fact] = parking.by_fault(ROUTE, Failure("rate_limited", "route_fault", code="450"))

    assert parking.unalerted() == []
    clock.advance(RATE_LIMIT_ALERT_AFTER_S)
    assert parking.unalerted() == [fact]


async def test_what_a_person_parked_needs_no_alert(parking: Parking) -> None:
    await parking.park("mail", actor="ann", reason="migration")

    assert parking.unalerted() == []


async def test_a_probe_that_gets_through_does_not_end_what_a_person_parked(
    store: MemoryStore, parking: Parking
) -> None:
    await store.save([], list(parking.by_fault(ROUTE, FAULT)))
    await parking.park("mail", actor="ann", reason="migration")
    assert not parking.may_probe("mail")

    await parking.end_fault("mail")
    await parking.refresh()

    assert parking.is_parked("mail")
    [(route_name, fact)] = (await parked_routes(store)).items()
    assert (route_name, (fact.value or {})["by"]) == ("mail", "ann")


async def test_a_fault_under_a_persons_park_is_known_when_that_ends(parking: Parking) -> None:
    await parking.park("mail", actor="ann", reason="migration")

    assert parking.by_fault(ROUTE, FAULT) != ()


async def test_a_person_ends_both(store: MemoryStore, parking: Parking) -> None:
    await store.save([], list(parking.by_fault(ROUTE, FAULT)))
    await parking.park("mail", actor="ann", reason="migration")

    await parking.unpark("mail")
    await parking.refresh()

    assert not parking.is_parked("mail")
    assert await parked_routes(store) == {}


async def test_a_refresh_tells_whether_something_has_changed(
    store: MemoryStore, parking: Parking
) -> None:
    other = Parking(store, ManualClock())
    await other.park("mail", actor="ann", reason="migration")

    assert await parking.refresh() is True
    assert await parking.refresh() is False
    await other.unpark("mail")
    assert await parking.refresh() is True


async def test_a_fault_that_is_found_during_a_refresh_is_not_forgotten() -> None:
    class Slow(MemoryStore):
        async def facts(self, kind: str, *rest: Any, **named: Any) -> list[Fact]:
            found = await super().facts(kind, *rest, **named)
            finding.by_fault(ROUTE, FAULT)
            return found

    finding = Parking(Slow(), ManualClock())

    await finding.refresh()

    assert finding.is_parked("mail")
