"""SQLite's statements, and answers to questions in the thread that asks."""

from __future__ import annotations

import sqlite3
from typing import TypeVar

from homing.stores.sql.asking import Ask, Steps, run
from homing.stores.sql.columns import FRESH, Row
from homing.stores.sql.dialect import Dialect
from homing.stores.sql.sqlite.rows import PARTS
from homing.stores.sql.statements import load

T = TypeVar("T")
_READ = load(__package__, "read.sql", PARTS | {"no_fresh": ", ".join(["null"] * len(FRESH))})
DIALECT = Dialect(
    _READ | load(__package__, "purge.sql", PARTS | _READ),
    few_to_one_address=5_000,
    has_open_apart=False,
)


def answer(connection: sqlite3.Connection, steps: Steps[T]) -> T:
    """Several statements of a question see the same state of the database."""

    def execute(ask: Ask) -> list[Row]:
        if not ask.alone and not connection.in_transaction:
            connection.execute("begin")
        return connection.execute(ask.sql, ask.values).fetchall()

    try:
        return run(steps, execute)
    finally:
        if connection.in_transaction:
            connection.execute("commit")
