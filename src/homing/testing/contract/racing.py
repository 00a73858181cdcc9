"""Races: between two processes where the store can be shared by them, else between two handles."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from asyncio.subprocess import PIPE, Process

from homing.ports import Added, Existing, Query, Store
from homing.testing import samples
from homing.testing.contract import racer
from homing.testing.contract.opening import Opened, Opener
from homing.testing.contract.racer import CALLERS, CONTESTED
from homing.testing.samples import LEASE_MS, NOW_MS, SOURCE

RACERS = ("one", "two")
PATIENCE_S = 60.0


async def race(opener: Opener, task: str) -> list[list[str]]:
    """What each of two racers got; they start together."""
    if opener.url is None or opener.factory is None:
        handles = [await opener.open() for _ in RACERS]
        runs = zip(handles, RACERS, strict=True)
        return await asyncio.gather(*(racer.TASKS[task](store, name) for store, name in runs))
    racers = [await _start(opener.factory, opener.url, task, name) for name in RACERS]
    try:
        async with asyncio.timeout(PATIENCE_S):
            for process in racers:
                assert process.stdout is not None
                assert await process.stdout.readline() == b"ready\n"
            answers = await asyncio.gather(*(process.communicate(b"go\n") for process in racers))
    finally:
        for process in racers:
            if process.returncode is None:
                process.kill()
                await process.wait()
    assert [process.returncode for process in racers] == [0, 0]
    return [json.loads(stdout) for stdout, _ in answers]


async def _start(factory: str, url: str, task: str, name: str) -> Process:
    # By its path: as a module it would load the whole suite first.
    command = ("-P", racer.__file__, factory, url, task, name)
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    return await asyncio.create_subprocess_exec(
        sys.executable, *command, stdin=PIPE, stdout=PIPE, env=environment
    )


class RacingProcesses(Opened):
    async def test_two_claimers_get_disjoint_sets(self, store: Store, opener: Opener) -> None:
        news = samples.many(CONTESTED)
        await store.add(news)

        one, two = await race(opener, "claim")

        assert sorted(one + two) == [new.delivery.id for new in news]
        versions = {d.version for d in (await store.page(Query(), limit=1000)).items}
        assert versions == {2}

    async def test_one_key_is_one_delivery_i3(self, store: Store, opener: Opener) -> None:
        one, two = await race(opener, "add")

        (winner,) = one + two
        assert await store.count(Query()) == {(): 1}
        found = await store.find(SOURCE, "contested")
        assert found is not None
        assert found.delivery_id == winner

    async def test_of_two_savers_one_wins_i11(self, store: Store, opener: Opener) -> None:
        news = samples.many(CONTESTED)
        await store.add(news)

        won = dict(zip(RACERS, await race(opener, "save"), strict=True))

        assert sorted(won["one"] + won["two"]) == [new.delivery.id for new in news]
        for name, written in won.items():
            for delivery_id in written:
                stored = await store.get(delivery_id)
                assert stored is not None
                assert (stored.topic, stored.version) == (name, 2)
                (attempt,) = await store.attempts(delivery_id)
                assert attempt.holder == name

    async def test_two_closers_leave_no_child_open(self, store: Store, opener: Opener) -> None:
        children = [
            child
            for name in RACERS
            for child in samples.many(CONTESTED, prefix=name, parent_id="p")
        ]
        await store.add([samples.new("p", state="waiting", children=children)])

        one, two = await race(opener, "close")

        assert len(one + two) == 2 * CONTESTED
        parent = await store.get("p")
        assert parent is not None
        assert (parent.open_children, parent.due_at_ms) == (0, NOW_MS)


class RacingHandles(Opened):
    async def test_fifty_callers_of_one_key_make_one_delivery_i3(
        self, store: Store, other: Store
    ) -> None:
        answers = await asyncio.gather(
            *(
                handle.add(
                    [samples.keyed(f"{name}{n}", "same", facts=[samples.fact(f"{name}{n}")])]
                )
                for n in range(CALLERS)
                for name, handle in (("x", store), ("y", other))
            )
        )

        added = [answer for (answer,) in answers if isinstance(answer, Added)]
        assert len(added) == 1
        winner = added[0].delivery_id
        assert {a.delivery_id for (a,) in answers if isinstance(a, Existing)} == {winner}
        assert await store.count(Query()) == {(): 1}
        assert [fact.key for fact in await store.facts("note")] == [winner]

    async def test_claims_at_once_get_disjoint_sets(self, store: Store, other: Store) -> None:
        await store.add(samples.many(100))

        taken = await asyncio.gather(
            *(
                handle.claim(samples.claim(f"w{n}", limit=5))
                for n, handle in enumerate([store, other] * 10)
            )
        )

        held = [claimed.delivery for batch in taken for claimed in batch]
        assert len({d.id for d in held}) == len(held)
        rest = await store.claim(samples.claim("rest"))
        assert len(held) + len(rest) == 100
        for number, batch in enumerate(taken):
            assert {claimed.delivery.holder for claimed in batch} <= {f"w{number}"}

    async def test_saves_at_once_of_one_claim_one_wins_i11(
        self, store: Store, other: Store
    ) -> None:
        await store.add(samples.many(1))
        (held,) = await store.claim(samples.claim("w1"))
        states = ("delivered", "failed", "suppressed", "dismissed") * 3

        saved = await asyncio.gather(
            *(
                handle.save([samples.ended(held.delivery, state)])
                for state, handle in zip(states, [store, other] * 6, strict=True)
            )
        )

        (winner,) = [state for state, (won,) in zip(states, saved, strict=True) if won]
        stored = await store.get("d00000")
        assert stored is not None
        assert (stored.state, stored.version) == (winner, held.delivery.version + 1)

    async def test_a_renewal_and_a_claim_at_once_leave_one_owner(
        self, store: Store, other: Store
    ) -> None:
        for number in range(10):
            delivery_id, queue = f"d{number}", f"queue{number}"
            await store.add([samples.new(delivery_id, queue=queue)])
            (held,) = await store.claim(samples.claim("w1", queues=(queue,)))
            late_ms = NOW_MS + LEASE_MS
            (renewed,), taken = await asyncio.gather(
                store.renew("w1", [(delivery_id, held.delivery.version)], late_ms + 1),
                other.claim(samples.claim("w2", at_ms=late_ms, queues=(queue,))),
            )

            assert renewed is not bool(taken)
            stored = await store.get(delivery_id)
            assert stored is not None
            assert stored.holder == ("w1" if renewed else "w2")
