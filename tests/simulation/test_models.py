"""The models of the simulator: a service and a store that misbehave only as real ones do."""

from __future__ import annotations

import asyncio
import random

import pytest
from msgspec.structs import replace

from homing.domain.delivery import Key
from homing.domain.errors import StoreFull, StoreOutcomeUnknown, StoreUnavailable
from homing.domain.failure import Failure
from homing.domain.writes import Write
from homing.ports import Absent, Accepted, Added, Envelope, Found, Store, Unknown
from homing.testing import samples
from tests.simulation.simulator.connections import Connection, ProviderBroken, connect
from tests.simulation.simulator.hosts import SimProcess
from tests.simulation.simulator.options import Options
from tests.simulation.simulator.pauses import KNOWN_WITHIN_S
from tests.simulation.simulator.route_kinds import ROUTE_KINDS
from tests.simulation.simulator.service import SETTLE_S, Reaction, Service
from tests.simulation.simulator.world import World
from tests.simulation.virtualtime import VirtualTimeLoop, new_loop

ENVELOPE = Envelope(delivery_id="d1", token="t1", recipients=("ann", "bob"), data=b"hello")


CALM = Options(
    seed=1,
    deliveries=10,
    families=(),
    routes=("post",),
    window_s=60.0,
    workers=1,
    senders=0,
    machines=1,
    concurrency=2,
    delay_share=0.0,
    delay_s=0.0,
    answer_share=0.0,
    answer_s=0.0,
)


def _service(route_kind: str, loop: VirtualTimeLoop) -> Service:
    return Service(ROUTE_KINDS[route_kind], CALM, random.Random(1), loop, lambda _: None)


def _arrive(service: Service, reaction: Reaction = "accept") -> Accepted | Failure | None:
    return service.arrive(ENVELOPE, reaction, "w0.1", zombie=False)


@pytest.mark.parametrize(
    ("reaction", "accepted", "maybe_sent"),
    [
        ("cut_after", 1, True),
        ("cut_before", 0, True),
        ("deferred", 0, False),
        ("rejected", 0, False),
    ],
)
def test_the_ledger_knows_what_the_answer_hides(
    reaction: Reaction, accepted: int, maybe_sent: bool
) -> None:
    service = _service("post", new_loop())
    answer = _arrive(service, reaction)
    assert isinstance(answer, Failure)
    assert answer.maybe_sent is maybe_sent
    assert len(service.ledger.get("d1", [])) == accepted


def test_a_token_is_folded_within_its_window_and_not_after() -> None:
    loop = new_loop()
    service = _service("folded", loop)

    async def main() -> list[int]:
        numbers = []
        for _ in range(3):
            assert isinstance(_arrive(service), Accepted)
            numbers.append(len(service.ledger["d1"]))
            await asyncio.sleep(ROUTE_KINDS["folded"].token_window_s * 0.6)
        return numbers

    assert loop.run(main()) == [1, 1, 2]


def test_absence_is_told_only_after_the_settle_time() -> None:
    loop = new_loop()
    service = _service("asked", loop)

    async def main() -> list[type]:
        answers = [type(service.look("t1"))]
        await asyncio.sleep(SETTLE_S + 1)
        answers.append(type(service.look("t1")))
        _arrive(service, "cut_after")
        answers.append(type(service.look("t1")))
        await asyncio.sleep(SETTLE_S + 1)
        answers.append(type(service.look("t1")))
        return answers

    assert loop.run(main()) == [Unknown, Absent, Unknown, Found]


def test_wrong_credentials_are_the_routes_fault_and_nothing_is_accepted() -> None:
    service = _service("post", new_loop())
    service.has_bad_credentials = True
    answer = _arrive(service)
    assert isinstance(answer, Failure)
    assert answer.disposition == "route_fault"
    assert service.ledger == {}


def _world(**rates: float) -> tuple[World, Store]:
    world = World(replace(CALM, **rates))
    return world, world.store_of(SimProcess(world.hosts[0], world))


def test_a_refused_write_stores_nothing_and_a_lost_answer_everything() -> None:
    empty, refusing = _world(store_refused=1.0)
    filled, losing = _world(store_unknown=1.0)

    async def main() -> None:
        with pytest.raises(StoreUnavailable):
            await refusing.add([samples.new("d1")])
        with pytest.raises(StoreOutcomeUnknown):
            await losing.add([samples.new("d1")])

    new_loop().run(main())
    assert list(empty.disk.deliveries) == []
    assert list(filled.disk.deliveries) == ["d1"]
    assert (empty.faults, filled.faults) == ({"store_refused": 1}, {"store_unknown": 1})


def test_a_lost_answer_may_also_mean_that_nothing_was_stored() -> None:
    world, losing = _world(store_unknown_lost=1.0)

    async def main() -> None:
        with pytest.raises(StoreOutcomeUnknown):
            await losing.add([samples.new("d1")])

    new_loop().run(main())
    assert list(world.disk.deliveries) == []
    assert world.faults == {"store_unknown_lost": 1}


def test_a_full_disk_refuses_writes_alone() -> None:
    world, store = _world()

    async def main() -> None:
        await store.add([samples.new("d1")])
        world.conditions.is_full = True
        with pytest.raises(StoreFull):
            await store.add([samples.new("d2")])
        assert await store.get("d1") is not None
        world.conditions.is_full = False
        await store.add([samples.new("d2")])

    new_loop().run(main())
    assert list(world.disk.deliveries) == ["d1", "d2"]


def _connection(**rates: float) -> tuple[World, Connection]:
    world = World(replace(CALM, **rates))
    process = SimProcess(world.hosts[0], world)
    return world, connect(world.services["post"], process, world.sends, world.trace)


def test_a_send_that_raises_may_have_been_accepted() -> None:
    world, connection = _connection(start_raised=1.0)

    async def main() -> None:
        for number in range(20):
            ready = await connection.prepare(replace(ENVELOPE, token=f"t{number}"))
            assert not isinstance(ready, Failure)
            with pytest.raises(ProviderBroken):
                await ready.commit()

    world.loop.run_until_complete(main())
    assert 0 < len(world.services["post"].ledger["d1"]) < 20


@pytest.mark.parametrize("fault", ["answer_none", "answer_garbage"])
def test_a_provider_may_answer_with_what_is_no_answer(fault: str) -> None:
    world, connection = _connection(**{fault: 1.0})

    async def main() -> object:
        ready = await connection.prepare(ENVELOPE)
        assert not isinstance(ready, Failure)
        return await ready.commit()

    assert not isinstance(world.loop.run_until_complete(main()), Accepted | Failure)
    assert len(world.services["post"].ledger["d1"]) == 1, "the service has it all the same"


def test_a_difference_between_sqlite_and_the_reference_is_found() -> None:
    world = World(replace(CALM, store="sqlite"))
    store = world.store_of(SimProcess(world.hosts[0], world))

    async def main() -> None:
        await store.add([samples.new("d1"), samples.new("d2")])
        assert world.findings.breaches == []
        world.disk.put(replace(world.disk.deliveries["d2"], priority=1))
        await store.get("d2")

    world.loop.run_until_complete(main())
    assert world.sqlite is not None
    world.sqlite.check_all()
    texts = [f"{breach.subject}: {breach.text}" for breach in world.findings.breaches]
    world.close()
    assert texts == [
        "d2: get in SQLite: .priority is 2, not 1",
        "d2: record in SQLite: .priority is 2, not 1",
    ]


@pytest.mark.parametrize(
    ("ended_at_ms", "asked_at_ms", "is_fine"),
    [(None, 9_000_000, False), (1_000, 40_999, False), (1_000, 41_000, True)],
)
def test_a_key_may_be_taken_again_when_its_term_after_the_end_is_over(
    ended_at_ms: int | None, asked_at_ms: int, is_fine: bool
) -> None:
    world = World(CALM)
    key = Key("s", "k", "d1", "f")
    first = replace(
        samples.new("d1").delivery, source="s", key="k", key_term_s=40.0, ended_at_ms=ended_at_ms
    )
    second = replace(first, id="d2", created_at_ms=asked_at_ms)
    world.disk.put(first)
    world.keys.asked(Write(delivery=first, keys=(key,)), Added("d1"))
    world.keys.asked(Write(delivery=second, keys=(key,)), Added("d2"))
    assert (world.findings.breaches == []) is is_fine


@pytest.mark.parametrize(("paused_for_s", "is_fine"), [(KNOWN_WITHIN_S, True), (60.0, False)])
def test_what_a_person_paused_is_not_claimed_once_everybody_knows(
    paused_for_s: float, is_fine: bool
) -> None:
    world = World(CALM)
    process = SimProcess(world.hosts[0], world)
    world.pauses.clicks("post")
    world.pauses.clicked("post", paused=True)

    async def main() -> None:
        await asyncio.sleep(paused_for_s)
        world.pauses.claimed(process, "post", "d1")
        world.pauses.clicks("post")
        world.pauses.claimed(process, "post", "d2")

    world.loop.run_until_complete(main())
    assert [breach.subject for breach in world.findings.breaches] == ([] if is_fine else ["d1"])
