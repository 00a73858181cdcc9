"""What was worked off is released: a process that waits keeps no contents in memory."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from homing import Email, Event, HandlerCall, Homing
from homing.domain.delivery import New
from homing.engine.work.claimed_work import ClaimedWork
from homing.ports import Claimed, Facet, Query
from homing.providers.stub import StubProvider
from homing.stores.sql.planning import Plan
from homing.stores.sql.sqlite.committing import Job

NUMBER = 40
BOUND_S = 60.0
LOOK_S = 0.01
DELIVERED = Query(facets=(Facet(state="delivered"),))
WITH_CONTENT = (ClaimedWork, Claimed, Job, New, Plan)


@pytest_asyncio.fixture(params=["memory", "sqlite"])
async def homing(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Homing]:
    store = "memory:" if request.param == "memory" else tmp_path / "outbox.db"
    homing = Homing(store, provider=StubProvider())

    @homing.on("paid")
    async def paid(call: HandlerCall) -> None:
        """Does nothing."""

    async with homing:
        yield homing


@pytest.mark.parametrize("kind", ["mails", "events"])
async def test_a_worker_that_waits_keeps_no_contents(homing: Homing, kind: str) -> None:
    earlier = kept()  # of other tests
    messages: list[Email | Event] = [
        Email(to="ann@example.org", subject=f"{number}", text="hello")
        if kind == "mails"
        else Event("paid", {"number": number})
        for number in range(NUMBER)
    ]
    for message in messages:
        await homing.submit(message)
    async with asyncio.timeout(BOUND_S):
        while (await homing.store.count(DELIVERED))[()] < NUMBER:  # noqa: ASYNC110 - no event tells
            await asyncio.sleep(LOOK_S)
        while kept().keys() - earlier.keys():  # noqa: ASYNC110 - no event tells
            await asyncio.sleep(LOOK_S)


def kept() -> dict[int, object]:
    gc.collect()
    return {id(each): each for each in gc.get_objects() if type(each) in WITH_CONTENT}
