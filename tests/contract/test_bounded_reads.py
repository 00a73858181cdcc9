"""Both ways of a listing find the same: through the index of few, and along the creation time."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio

from homing.domain.delivery import New, Recipient, State
from homing.ports import Facet, Query
from homing.stores.sql import few
from homing.stores.sql.postgres import PostgresStore
from homing.stores.sql.sqlite import SqliteStore
from homing.testing import samples
from homing.testing.contract.bounding import walked
from homing.testing.samples import NOW_MS
from tests import servers

STATES: tuple[State, ...] = ("pending", "failed", "delivered", "dismissed")


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with servers.postgres("fsync=off", "full_page_writes=off") as server:
        yield f"{server.url}?durability=weak"


@pytest_asyncio.fixture(params=["sqlite", "postgresql"])
async def store(
    request: pytest.FixtureRequest, tmp_path: Path
) -> AsyncIterator[SqliteStore | PostgresStore]:
    store: SqliteStore | PostgresStore
    if request.param == "sqlite":
        store = SqliteStore(str(tmp_path / "outbox.db"))
    else:
        store = PostgresStore(request.getfixturevalue("url"))
    await store.open()
    yield store
    await store.close()


def lot(prefix: str) -> list[New]:
    return [
        samples.new(
            f"{prefix}{number:02}",
            state=STATES[number % 4],
            ended_at_ms=NOW_MS if number % 4 else None,
            created_at_ms=NOW_MS + number % 7,
            route="mail" if number % 3 else "jobs",
            recipients=(Recipient(f"{prefix}ann" if number % 3 else f"{prefix}bob"),),
        )
        for number in range(40)
    ]


async def test_an_address_that_very_many_are_for(
    store: SqliteStore | PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    await store.add(lot("many"))
    query = Query(recipient="manyann", facets=tuple(Facet(state=state) for state in STATES[:2]))
    every = [each.id for each in (await store.page(query, limit=1000)).items]
    assert await walked(store, query, 5) == every
    monkeypatch.setattr(store._dialect, "few_to_one_address", 3)
    assert await walked(store, query, 5) == every
    short = await store.page_within(query, None, 50, 5)
    assert len(short.items) < 5
    assert short.next is not None


@pytest.mark.parametrize("route", [None, "jobs"])
async def test_states_that_many_have(
    store: SqliteStore | PostgresStore, monkeypatch: pytest.MonkeyPatch, route: str | None
) -> None:
    await store.add(lot(f"states-{route}"))
    for states in (*((state,) for state in STATES), STATES[1:], STATES):
        query = Query(route=route, facets=tuple(Facet(state=state) for state in states))
        found = (await store.page(query, limit=1000)).items
        with monkeypatch.context() as patch:
            patch.setattr(few, "FEW", -1)
            assert (await store.page(query, limit=1000)).items == found
            assert await walked(store, query, 7) == [each.id for each in found]
