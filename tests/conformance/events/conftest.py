"""A PostgreSQL server for the tests of the outbox, with a database for each."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from itertools import count

import psycopg
import pytest

from homing.stores.sql.postgres import PostgresStore
from tests import servers
from tests.conformance.events.outbox import Outbox

TEMPLATE = "outbox_template"
NUMBERS = count(1)


@pytest.fixture(scope="session")
def server() -> Iterator[str]:
    """These tests are not about power cuts: nothing is synced."""
    with servers.postgres("fsync=off", "full_page_writes=off") as server:
        yield server.url.removesuffix("/postgres")


@pytest.fixture(scope="session")
def template(server: str) -> str:
    """A database with the schema of the outbox, from which the others are copied."""
    execute(server, f"create database {TEMPLATE}")
    store = PostgresStore(f"{server}/{TEMPLATE}?durability=weak")
    store.add_sql_files("events", "homing.assemblies.events.postgres")
    asyncio.run(opened(store))
    return TEMPLATE


async def opened(store: PostgresStore) -> None:
    await store.open()
    await store.close()


def execute(server: str, statement: str) -> None:
    with psycopg.connect(f"{server}/postgres", autocommit=True) as connection:
        connection.execute(statement)


@pytest.fixture
def empty_database(server: str) -> str:
    """Without any table."""
    name = f"empty_{next(NUMBERS)}"
    execute(server, f"create database {name}")
    return f"{server}/{name}"


@pytest.fixture
def outbox(server: str, template: str) -> Iterator[Outbox]:
    name = f"outbox_{next(NUMBERS)}"
    execute(server, f"create database {name} template {template}")
    url = f"{server}/{name}"
    with psycopg.connect(url, autocommit=True) as connection:
        yield Outbox(url, connection)
