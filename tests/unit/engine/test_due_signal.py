"""Waiting for something to be due: no signal is missed, and all are woken in order."""

from __future__ import annotations

import asyncio

from homing.engine.work.due_signal import DueSignal, WakeUp
from homing.stores.memory import MemoryStore
from homing.stores.store_signal import StoreSignal

NEVER_S = 3600.0


async def test_those_that_wait_are_woken_in_the_order_in_which_they_came() -> None:
    signal, woken = DueSignal(), list[int]()

    async def wait(number: int) -> None:
        await signal.after(signal.moment, NEVER_S)
        woken.append(number)

    waiting = [asyncio.ensure_future(wait(number)) for number in range(50)]
    await asyncio.sleep(0)
    signal.tell()
    await asyncio.gather(*waiting)

    assert woken == list(range(50))


async def test_a_signal_since_the_last_look_ends_the_next_wait_at_once() -> None:
    signal = StoreSignal()
    signal.tell()
    await signal.wait(NEVER_S)
    signal.look()
    moment = signal.moment
    signal.tell()
    await signal.after(moment, NEVER_S)
    await signal.wait(NEVER_S)

    waiting = asyncio.ensure_future(signal.wait(NEVER_S))
    await asyncio.sleep(0)
    assert not waiting.done()
    waiting.cancel()


async def test_a_wait_ends_by_itself() -> None:
    signal = StoreSignal()
    await signal.wait(0.0)
    await signal.after(signal.moment, 0.001)
    assert signal.moment == 0


async def test_the_store_is_listened_to_again_before_a_worker_claims() -> None:
    """A claim consumes the signals of its store: one that came while nobody listened would be lost
    for the other workers."""
    waits = 0

    class CountingStore(MemoryStore):
        async def wait(self, timeout_s: float) -> None:
            nonlocal waits
            waits += 1
            if waits > 1:
                await super().wait(timeout_s)

    wakeup = WakeUp(CountingStore())
    seen: list[int] = []

    async def worker() -> None:
        await wakeup.after(wakeup.moment, NEVER_S)
        seen.append(waits)

    working = asyncio.ensure_future(worker())
    await asyncio.sleep(0)
    listening = asyncio.ensure_future(wakeup.listen())
    await working
    listening.cancel()

    assert seen == [2]
