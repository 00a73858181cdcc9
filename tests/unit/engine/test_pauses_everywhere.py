"""A pause by a person holds in all processes within a second, and only a person ends it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from msgspec.structs import replace

from homing.domain.failure import Failure
from homing.engine.process.pausing import KNOWN_WITHIN_S
from homing.ports import Envelope
from tests.simulation.virtualtime import run
from tests.unit.engine.providers import Flock, GroupSending, sending
from tests.unit.engine.world import World

FAULT = Failure("auth_failed", "route_fault", detail="bad credentials")
HOLD = {"actor": "ann", "reason": "legal hold"}


class SlowFlock(Flock):
    """Prepares when it is told to."""

    def __init__(self, room: int = 1000) -> None:
        super().__init__(room=room)
        self.may_prepare = asyncio.Event()

    async def prepare_some(self, envelopes: Sequence[Envelope]) -> list[GroupSending | Failure]:
        await self.may_prepare.wait()
        return list(await super().prepare_some(envelopes))


async def answer_all(provider: Flock, every_s: float) -> None:
    while True:
        await asyncio.sleep(every_s)
        provider.answer(len(provider.waiting))


def test_a_pause_and_its_end_in_another_process_hold_within_a_second() -> None:
    async def scene() -> None:
        provider = Flock(room=1)
        worker = World(replace(sending(provider), concurrency=1))
        other = World(sending(Flock()), store=worker.store, clock=worker.clock, name="cli")
        for number in range(50):
            await worker.submit(str(number))
        await worker.engine.start()
        server = asyncio.create_task(answer_all(provider, 0.2))
        await asyncio.sleep(2)
        assert 5 < len(provider.sent) < 50

        under_way = await other.engine.ops.pause("mail", **HOLD)
        assert under_way > 1
        await asyncio.sleep(KNOWN_WITHIN_S)
        sent = len(provider.sent)
        await asyncio.sleep(120)
        assert len(provider.sent) == sent
        states = {delivery.state for delivery in worker.store.disk.deliveries.values()}
        assert states == {"pending", "delivered"}, "what is not sent is given back, not held"

        await other.engine.ops.resume("mail", **HOLD)
        await asyncio.sleep(KNOWN_WITHIN_S)
        assert len(provider.sent) > sent
        server.cancel()
        await worker.engine.stop(grace_s=0.0)

    run(scene())


def test_what_is_prepared_and_not_yet_marked_is_given_back() -> None:
    async def scene() -> None:
        provider = SlowFlock()
        worker = World(sending(provider))
        other = World(sending(Flock()), store=worker.store, clock=worker.clock, name="cli")
        letter = await worker.submit()
        await worker.engine.start()
        await asyncio.sleep(1)

        await other.engine.ops.pause("mail", **HOLD)
        await asyncio.sleep(KNOWN_WITHIN_S)
        provider.may_prepare.set()
        await asyncio.sleep(5)
        await worker.engine.stop(grace_s=0.0)

        stored = await worker.get(letter.id)
        assert (provider.sent, provider.abandoned) == ([], 1)
        assert (stored.state, stored.committing, stored.attempts_spent) == ("pending", False, 0)

    run(scene())


def test_a_fault_and_a_probe_of_another_process_do_not_end_a_legal_hold() -> None:
    async def scene() -> None:
        provider = SlowFlock()
        worker = World(sending(provider))
        other = World(sending(Flock()), store=worker.store, clock=worker.clock, name="cli")
        await worker.store.save([], worker.engine.pausing.by_fault(worker.route, FAULT))
        await worker.submit()
        await worker.engine.start()
        while not worker.engine.workers["mail"].held_ids:
            worker.clock.advance(worker.route.probe_every_s)
            await asyncio.sleep(worker.route.probe_every_s)

        # A probe is under way when a person pauses the route.
        await other.engine.ops.pause("mail", **HOLD)
        await asyncio.sleep(KNOWN_WITHIN_S)
        provider.may_prepare.set()
        for _ in range(20):
            worker.clock.advance(worker.route.probe_every_s)
            await asyncio.sleep(worker.route.probe_every_s)
        assert provider.sent == []

        # Even a probe that gets through, or a further fault, changes nothing.
        await worker.engine.pausing.end_fault("mail")
        await worker.store.save([], worker.engine.pausing.by_fault(worker.route, FAULT))
        await worker.engine.pausing.end_fault("mail")
        for world in (worker, other):
            await world.engine.pausing.refresh()
            assert world.engine.pausing.is_paused("mail")
            assert not world.engine.pausing.may_probe("mail")
        await asyncio.sleep(120)
        assert provider.sent == []

        await other.engine.ops.resume("mail", **HOLD)
        await asyncio.sleep(KNOWN_WITHIN_S)
        assert len(provider.sent) == 1
        await worker.engine.stop(grace_s=0.0)

    run(scene())


def test_the_end_of_a_pause_wakes_the_workers_of_its_own_process() -> None:
    async def scene() -> None:
        provider = Flock()
        worker = World(sending(provider))
        await worker.engine.ops.pause("mail", **HOLD)
        await worker.engine.start()
        await worker.submit()
        await asyncio.sleep(5)
        assert provider.sent == []

        await worker.engine.ops.resume("mail", **HOLD)
        await asyncio.sleep(KNOWN_WITHIN_S)
        assert len(provider.sent) == 1
        await worker.engine.stop(grace_s=0.0)

    run(scene())
