"""Facts about what was claimed are seen by the claim: most questions need no round trip."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator, Sequence

import pytest

from homing.domain.delivery import Fact
from homing.stores.sql.asking import Steps
from homing.stores.sql.dialect import Dialect
from homing.stores.sql.postgres import PostgresStore
from homing.stores.sql.reading import known_facts
from homing.testing import samples
from tests import servers

KIND = "event_handled"


@pytest.fixture(scope="module")
def server() -> Iterator[servers.Server]:
    with servers.postgres() as server:
        yield server


@contextlib.asynccontextmanager
async def asked_once(url: str, queue: str) -> AsyncIterator[PostgresStore]:
    """A store whose claims look for the kind; it is learnt from the first question."""
    store = PostgresStore(url)
    await store.open()
    try:
        async with asyncio.timeout(60):
            assert not await store.known_facts(KIND, [f"{queue}-0/name"])
            yield store
    finally:
        await store.close()


def count_lookups(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    asked: list[object] = []

    def counted(dialect: Dialect, kind: str, keys: Sequence[str]) -> Steps[list[str]]:
        asked.append(keys)
        return known_facts(dialect, kind, keys)

    monkeypatch.setattr("homing.stores.sql.reading.known_facts", counted)
    return asked


async def add_and_claim(store: PostgresStore, queue: str, parent: str | None = None) -> list[str]:
    new = [samples.new(f"{queue}-{n}", queue=queue, parent_id=parent) for n in range(3)]
    await store.add(new)
    return [one.delivery.id for one in await store.claim(samples.claim(queues=(queue,)))]


async def test_what_the_claim_has_not_seen_is_not_looked_up(
    server: servers.Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with asked_once(server.url, "none") as store:
        claimed = await add_and_claim(store, "none")
        assert len(claimed) == 3
        asked = count_lookups(monkeypatch)
        assert not await store.known_facts(KIND, [f"{each}/name" for each in claimed])
        assert not asked
        # Once: what is asked again may be known by then.
        await store.save([], [Fact(KIND, "none-1/name", 1, {"a": 1})])
        assert await store.known_facts(KIND, [f"{each}/name" for each in claimed]) == [
            "none-1/name"
        ]


async def test_facts_from_before_the_claim_are_found(server: servers.Server) -> None:
    async with asked_once(server.url, "some") as store:
        await store.save([], [Fact(KIND, "some-2/name", 1, {"a": 1})])
        claimed = await add_and_claim(store, "some")
        known = await store.known_facts(KIND, [f"{each}/name" for each in claimed])
        assert known == ["some-2/name"]


async def test_facts_about_a_parent_are_found(server: servers.Server) -> None:
    async with asked_once(server.url, "child") as store:
        await store.save([], [Fact(KIND, "event/name", 1, {"a": 1})])
        await add_and_claim(store, "child", parent="event")
        assert await store.known_facts(KIND, ["event/name", "event/other"]) == ["event/name"]


async def test_an_old_claim_proves_nothing(
    server: servers.Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with asked_once(server.url, "old") as store:
        claimed = await add_and_claim(store, "old")
        monkeypatch.setattr("homing.stores.sql.postgres.claimed_facts.TRUSTED_S", -1.0)
        asked = count_lookups(monkeypatch)
        assert not await store.known_facts(KIND, [f"{each}/name" for each in claimed])
        assert len(asked) == 1
