"""A fault of the route stops the route, and is told once (I19)."""

from __future__ import annotations

from typing import Any

import pytest

from homing.domain.delivery import Fact
from homing.domain.failure import Failure
from homing.engine.process.pausing import PAUSED, RATE_LIMIT_ALERT_AFTER_S, Pausing, paused_routes
from homing.stores.memory import MemoryStore
from homing.testing.clocks import ManualClock
from tests.unit.engine.world import route

FAULT = Failure("auth_failed", "route_fault", code="535", detail="bad credentials")
ROUTE = route(name="mail")


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


@pytest.fixture
def pausing(store: MemoryStore) -> Pausing:
    return Pausing(store, ManualClock())


def test_the_first_fault_pauses_and_further_ones_add_nothing(pausing: Pausing) -> None:
    [fact] = pausing.by_fault(ROUTE, FAULT)

    assert pausing.is_paused("mail")
    assert (fact.kind, fact.key) == (PAUSED, "mail")
    assert fact.value is not None
    assert (fact.value["reason"], fact.value["error_class"]) == ("bad credentials", "auth_failed")
    assert pausing.by_fault(ROUTE, FAULT) == ()


def test_another_route_goes_on(pausing: Pausing) -> None:
    pausing.by_fault(ROUTE, FAULT)

    assert not pausing.is_paused("event")


async def test_a_fault_is_probed_but_what_a_person_paused_stays_paused(pausing: Pausing) -> None:
    pausing.by_fault(ROUTE, FAULT)
    await pausing.pause("event", actor="ann", reason="migration")

    assert pausing.may_probe("mail")
    assert pausing.is_paused("event")
    assert not pausing.may_probe("event")
    assert not pausing.may_probe("unknown")


async def test_other_processes_see_it_and_see_it_end(store: MemoryStore, pausing: Pausing) -> None:
    other = Pausing(store, ManualClock())
    await pausing.pause("mail", actor="ann", reason="migration")

    await other.refresh()
    assert other.is_paused("mail")

    await other.resume("mail")
    await pausing.refresh()
    assert not pausing.is_paused("mail")


async def test_a_fault_is_told_once(store: MemoryStore, pausing: Pausing) -> None:
    await store.save([], list(pausing.by_fault(ROUTE, FAULT)))
    [fact] = pausing.unalerted()

    await pausing.mark_alerted(fact)

    assert pausing.unalerted() == []
    await pausing.refresh()
    assert pausing.unalerted() == []
    assert pausing.is_paused("mail")


async def test_a_rate_limit_is_told_only_if_it_lasts() -> None:
    clock = ManualClock()
    pausing = Pausing(MemoryStore(), clock)
    [fact] = pausing.by_fault(ROUTE, Failure("rate_limited", "route_fault", code="450"))

    assert pausing.unalerted() == []
    clock.advance(RATE_LIMIT_ALERT_AFTER_S)
    assert pausing.unalerted() == [fact]


async def test_what_a_person_paused_needs_no_alert(pausing: Pausing) -> None:
    await pausing.pause("mail", actor="ann", reason="migration")

    assert pausing.unalerted() == []


async def test_a_probe_that_gets_through_does_not_end_what_a_person_paused(
    store: MemoryStore, pausing: Pausing
) -> None:
    await store.save([], list(pausing.by_fault(ROUTE, FAULT)))
    await pausing.pause("mail", actor="ann", reason="migration")
    assert not pausing.may_probe("mail")

    await pausing.end_fault("mail")
    await pausing.refresh()

    assert pausing.is_paused("mail")
    [(route_name, fact)] = (await paused_routes(store)).items()
    assert (route_name, (fact.value or {})["by"]) == ("mail", "ann")


async def test_a_fault_under_a_persons_pause_is_known_when_that_ends(pausing: Pausing) -> None:
    await pausing.pause("mail", actor="ann", reason="migration")

    assert pausing.by_fault(ROUTE, FAULT) != ()


async def test_a_person_ends_both(store: MemoryStore, pausing: Pausing) -> None:
    await store.save([], list(pausing.by_fault(ROUTE, FAULT)))
    await pausing.pause("mail", actor="ann", reason="migration")

    await pausing.resume("mail")
    await pausing.refresh()

    assert not pausing.is_paused("mail")
    assert await paused_routes(store) == {}


async def test_a_refresh_tells_whether_something_has_changed(
    store: MemoryStore, pausing: Pausing
) -> None:
    other = Pausing(store, ManualClock())
    await other.pause("mail", actor="ann", reason="migration")

    assert await pausing.refresh() is True
    assert await pausing.refresh() is False
    await other.resume("mail")
    assert await pausing.refresh() is True


async def test_a_fault_that_is_found_during_a_refresh_is_not_forgotten() -> None:
    class Slow(MemoryStore):
        async def facts(self, kind: str, *rest: Any, **named: Any) -> list[Fact]:
            found = await super().facts(kind, *rest, **named)
            finding.by_fault(ROUTE, FAULT)
            return found

    finding = Pausing(Slow(), ManualClock())

    await finding.refresh()

    assert finding.is_paused("mail")
