"""Waiting for something to be due: no signal is missed, and all are woken in order."""

from __future__ import annotations

import asyncio

from homing.engine.due_signal import DueSignal

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
    signal = DueSignal()
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
    signal = DueSignal()
    await signal.wait(0.0)
    await signal.after(signal.moment, 0.001)
    assert signal.moment == 0
