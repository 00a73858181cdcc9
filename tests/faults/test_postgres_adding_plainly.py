"""The statement for deliveries that differ in little stores what the general one stores."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from typing import Any

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings

from homing.domain.delivery import New
from homing.ports import Added, Existing
from homing.stores.sql.postgres import PostgresStore
from homing.stores.sql.postgres.adding import NewRows, add_request
from homing.stores.sql.postgres.adding_alone import lone_statement
from homing.stores.sql.postgres.adding_plainly import are_plain
from homing.stores.sql.postgres.statement import Statement
from homing.stores.sql.postgres.within_connections import Psycopg
from tests import servers
from tests.unit.stores.new_deliveries import some_new

TABLES = ("open", "ended", "records", "keys", "results", "recipients", "facts", "counts")


@pytest.fixture(scope="module")
def connection() -> Iterator[psycopg.Connection[Any]]:
    """To a database with the tables of a store and no rows."""
    with servers.postgres() as server:

        async def make_tables() -> None:
            store = PostgresStore(server.url)
            await store.open()
            await store.close()

        asyncio.run(make_tables())
        with psycopg.connect(server.url, autocommit=True) as connection:
            yield connection


def by_rule(new: Sequence[New]) -> tuple[list[Added | Existing], bool, Statement | None]:
    rows = NewRows(set(), {})
    answers = [rows.add(entry) for entry in add_request(new).entries]
    return answers, rows.wakes, rows.statement_of_part()


def plainly(new: Sequence[New]) -> tuple[list[Added | Existing], bool, Statement | None]:
    rows = NewRows(set(), {})
    answers = rows.add_plain(new)
    assert answers is not None
    return answers, rows.wakes, rows.statement_of_part()


def stored(connection: psycopg.Connection[Any], statement: Statement | None) -> list[Any]:
    """All rows after the statement, and whether it notifies; then it is undone."""
    assert statement is not None
    with connection.transaction(force_rollback=True):
        Psycopg(connection).run(statement)
        rows = [
            sorted(connection.execute(f"select * from homing_{table}".encode()), key=repr)
            for table in TABLES
        ]
    return [rows, "pg_notify" in statement.sql]


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(some_new())
def test_it_stores_and_answers_what_the_rule_says(
    connection: psycopg.Connection[Any], new: list[New]
) -> None:
    if not are_plain(new):
        return
    *told, statement = plainly(new)
    *expected, general = by_rule(new)

    assert told == expected
    assert stored(connection, statement) == stored(connection, general)
    lone = lone_statement([add_request(new[:1])])
    assert stored(connection, lone) == stored(connection, by_rule(new[:1])[2])
