"""Damage is told at once, a refusal once it has lasted, and both are seen from outside."""

from __future__ import annotations

import asyncio

import pytest

from homing.domain.errors import StoreCorrupt, StoreFull, StoreLocked
from homing.engine.process.store_health import REFUSES_AFTER_S, StoreHealth
from homing.ports import Answers, Batch
from homing.stores.memory import MemoryStore
from homing.testing.clocks import ManualClock
from tests.unit.engine.world import Bell, World, quiet

LOCKED = StoreLocked("outbox.db: database is locked")
DAMAGE = StoreCorrupt("outbox.db: database disk image is malformed")


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def bell() -> Bell:
    return Bell()


@pytest.fixture
def health(clock: ManualClock, bell: Bell) -> StoreHealth:
    return StoreHealth(MemoryStore(), clock, bell.sound)


def kinds(bell: Bell) -> list[str]:
    return [alert.kind for alert in bell.alerts]


async def test_damage_is_logged_and_alerted_at_once_and_once(
    health: StoreHealth, bell: Bell, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(3):
        health.refused("claims", DAMAGE)
        await health.tell()

    assert kinds(bell) == ["store_damaged"]
    assert len([line for line in caplog.messages if "store_damaged" in line]) == 1
    assert health.problems == ["damage of the store stops the claims"]


async def test_a_refusal_that_passes_is_not_told(
    health: StoreHealth, bell: Bell, clock: ManualClock
) -> None:
    health.refused("claims", LOCKED)
    clock.advance(REFUSES_AFTER_S)
    await health.tell()
    health.answered("claims")
    clock.advance(REFUSES_AFTER_S)
    await health.tell()

    assert (kinds(bell), health.problems) == ([], [])


async def test_a_refusal_that_lasts_is_told_once_until_it_is_over(
    health: StoreHealth, bell: Bell, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(2):
        for _ in range(5):
            health.refused("claims", LOCKED)
            health.refused("heartbeats", StoreFull("no room"))
            clock.advance(REFUSES_AFTER_S)
            await health.tell()
        assert len(health.problems) == 2
        assert health.problems[0].endswith(" s: another connection keeps it locked")
        health.answered("claims")
        health.answered("heartbeats")
        await health.tell()

    assert kinds(bell) == ["store_refuses"] * 2
    assert caplog.messages.count("store_answers_again") == 2


async def test_an_alert_that_was_not_taken_is_given_again(health: StoreHealth, bell: Bell) -> None:
    bell.deaf = True
    health.met(DAMAGE)
    await health.tell()
    bell.deaf = False
    for _ in range(2):
        await health.tell()

    assert kinds(bell) == ["store_damaged"] * 2
    assert health.problems == [], "a single request does not make the whole store useless"


class DamagedStore(MemoryStore):
    async def commit(self, batch: Batch) -> Answers:
        if batch.claims:
            raise DAMAGE
        return await super().commit(batch)


class MuteStore(MemoryStore):
    async def commit(self, batch: Batch) -> Answers:
        if batch.claims:
            await asyncio.Event().wait()
        return await super().commit(batch)


class LoudBell(Bell):
    def __init__(self) -> None:
        super().__init__()
        self.rang = asyncio.Event()

    async def sound(self, alert: object) -> bool:
        self.rang.set()
        return await super().sound(alert)  # type: ignore[arg-type] # an Alert


async def test_a_worker_that_meets_damage_raises_the_alarm() -> None:
    bell = LoudBell()
    world = World(store=DamagedStore(), alarm=bell)
    await world.submit()

    await world.engine.start()
    async with asyncio.timeout(5):
        await bell.rang.wait()
    problems = world.engine.health.problems
    await world.engine.stop()

    assert kinds(bell) == ["store_damaged"]
    assert problems == ["damage of the store stops the claims of route event"]


async def test_a_claim_that_does_not_return_is_a_problem() -> None:
    world = World(store=MuteStore())
    await world.submit()
    await world.engine.start()
    await quiet()
    assert world.engine.health.problems == []

    world.clock.advance(REFUSES_AFTER_S + 1)

    problems = world.engine.health.problems
    await world.engine.stop(grace_s=0.0)
    assert problems == ["the store has refused the claims of route event for 11 s"]
