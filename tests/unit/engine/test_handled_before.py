"""What was handled before is asked once for a whole claim, however it is cut into batches."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence

from homing import Event, HandlerCall, Homing
from homing.domain.errors import StoreUnavailable
from homing.ports import Answers, Batch
from homing.stores.memory import MemoryStore

EVENTS = 200


class Asked(MemoryStore):
    """Looks up many facts at once, as a store does whose facts other programs may write."""

    def __init__(self, *, refuses: int = 0) -> None:
        super().__init__()
        self.claims = self.asked = 0
        self._refuses = refuses

    async def commit(self, batch: Batch) -> Answers:
        answers = await super().commit(batch)
        self.claims += any(answers.claims)
        return answers

    async def known_facts(self, kind: str, keys: Sequence[str]) -> Collection[str]:
        self.asked += 1
        await asyncio.sleep(0)
        if self.asked <= self._refuses:
            raise StoreUnavailable("not now")
        return [key for key in keys if key.startswith("done")]


async def handled(store: Asked) -> list[str]:
    called: list[str] = []
    homing = Homing(store, worker=False)

    @homing.on("paid")
    async def paid(event: HandlerCall) -> None:
        called.append(event.id)

    async with homing:
        for number in range(EVENTS):
            await homing.submit(Event("paid", {"n": number}), delivery_id=f"due-{number}")
        await homing.submit(Event("paid", {}), delivery_id="done-before")
        while len(called) < EVENTS:
            await homing.engine.run_until_idle()
        states = await homing.store.get_many(["done-before", "due-0"])
        assert [one and one.state for one in states] == ["delivered", "delivered"]
    return called


async def test_a_claim_asks_once() -> None:
    store = Asked()
    called = await handled(store)
    assert sorted(called) == sorted(f"due-{number}" for number in range(EVENTS))
    assert store.asked == store.claims


async def test_a_store_that_does_not_answer_the_claim_is_asked_again_by_each_batch() -> None:
    store = Asked(refuses=1)
    called = await handled(store)
    assert "done-before" not in called
    assert len(called) == EVENTS
