"""The PostgreSQL store keeps the contract."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from homing.ports import Store
from homing.stores.sql.postgres import PostgresStore
from homing.testing.contract import BoundedReadsContract, StoreContract
from tests import servers

EMPTY = """truncate homing_open, homing_ended, homing_records, homing_results, homing_recipients,
homing_keys, homing_attempts, homing_facts"""


class PostgresOpener:
    factory = "homing.stores.sql.postgres:PostgresStore"

    def __init__(self, url: str) -> None:
        self.url = url
        self._opened: list[PostgresStore] = []

    async def open(self) -> Store:
        store = PostgresStore(self.url)
        await store.open()
        self._opened.append(store)
        return store

    async def close_all(self) -> None:
        for store in self._opened:
            await store.close()


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """The contract is about what is stored, not about power cuts: this server does not sync."""
    with servers.postgres("fsync=off", "full_page_writes=off") as server:
        yield f"{server.url}?durability=weak"


@pytest.fixture
def empty_url(url: str) -> Iterator[str]:
    """The tables are made by the first case, and emptied after each."""
    yield url
    with psycopg.connect(url.partition("?")[0], autocommit=True) as connection:
        connection.execute(EMPTY)


class TestPostgresStore(StoreContract, BoundedReadsContract):
    @pytest.fixture
    def opener(self, empty_url: str) -> PostgresOpener:
        return PostgresOpener(empty_url)
