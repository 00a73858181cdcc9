"""A PostgreSQL server for the tests of the outbox, with a database for each."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from itertools import count

import psycopg
import pytest

from homing.stores.sql.postgres import PostgresStore
from homing.testing.clocks import ManualClock
from tests import servers
from tests.conformance.events.outbox import Outbox
from tests.unit.cli.conftest import cli

__all__ = ["cli"]

NUMBERS = count(1)
TABLES = """
select string_agg(format('public.%I', tablename), ', ') from pg_tables
where schemaname = 'public' and tablename not in ('homing_database')
and tablename not like '%migrations' and tablename not like '%files'
"""


@pytest.fixture(scope="session")
def server() -> Iterator[str]:
    with servers.postgres() as server:
        yield server.url.removesuffix("/postgres")


@pytest.fixture(scope="session")
def database(server: str) -> str:
    """With the schema of the outbox."""
    store = PostgresStore(url := f"{server}/postgres")
    store.add_sql_files("events", "homing_systems.events.postgres")

    async def migrate() -> None:
        await store.open()
        await store.close()

    asyncio.run(migrate())
    return url


@pytest.fixture
def outbox(database: str) -> Iterator[Outbox]:
    """Without any row."""
    with psycopg.connect(database, autocommit=True) as connection:
        [names] = connection.execute(TABLES).fetchone() or ("",)
        connection.execute(f"truncate {names}, core.outbox".encode())
        yield Outbox(database, connection)


@pytest.fixture
def empty_database(server: str) -> str:
    """Without any table."""
    name = f"empty_{next(NUMBERS)}"
    with psycopg.connect(f"{server}/postgres", autocommit=True) as connection:
        connection.execute(f"create database {name}".encode())
    return f"{server}/{name}"


@pytest.fixture
def server_clock(outbox: Outbox) -> ManualClock:
    """Ahead of the server's own clock, by which SQL sets its times."""
    return ManualClock(outbox.now_ms() + 60_000)
