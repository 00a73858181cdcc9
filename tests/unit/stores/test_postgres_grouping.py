"""Groups of requests to PostgreSQL: every caller gets an answer, whatever ends the group's task."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from homing.domain.errors import StoreOutcomeUnknown, StoreUnavailable
from homing.stores.sql.postgres.grouping import Groups


async def test_an_interrupted_group_leaves_no_caller_waiting() -> None:
    begun = asyncio.Event()

    async def execute(_requests: Sequence[int]) -> list[int]:
        begun.set()
        raise await asyncio.get_running_loop().create_future()

    groups: Groups[int, int] = Groups(execute, lambda _: 1)
    under_way = asyncio.ensure_future(groups.submit(1))
    await begun.wait()
    waiting = asyncio.ensure_future(groups.submit(2))
    await asyncio.sleep(0)
    assert groups._running is not None
    groups._running.cancel()

    with pytest.raises(StoreOutcomeUnknown):
        await under_way
    with pytest.raises(StoreUnavailable):
        await waiting


async def test_after_an_interruption_the_next_request_is_written() -> None:
    interruptions = [asyncio.CancelledError()]

    async def execute(requests: Sequence[int]) -> list[int]:
        if interruptions:
            raise interruptions.pop()
        return [*requests]

    groups: Groups[int, int] = Groups(execute, lambda _: 1)
    with pytest.raises(StoreOutcomeUnknown):
        await groups.submit(1)

    assert await groups.submit(2) == 2
