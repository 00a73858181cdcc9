"""PostgreSQL's statements, and answers to questions over a connection that is awaited."""

from __future__ import annotations

from typing import TypeVar

from homing.stores.sql.asking import Steps, run_async
from homing.stores.sql.columns import FRESH
from homing.stores.sql.dialect import Dialect
from homing.stores.sql.postgres.connection import Connection, Session
from homing.stores.sql.postgres.rows import KINDS, PARTS
from homing.stores.sql.postgres.statement import bind
from homing.stores.sql.statements import load

T = TypeVar("T")
_NO_FRESH = ", ".join(f"null::{KINDS[name]}" for name in FRESH)
_READ = load(__package__, "read.sql", PARTS | {"no_fresh": _NO_FRESH})
DIALECT = Dialect(
    _READ | load(__package__, "purge.sql", PARTS | _READ),
    few_to_one_address=2_000,
    has_open_apart=True,
)


async def answer(connection: Connection | Session, steps: Steps[T]) -> T:
    """Outside of a transaction, each statement of a question sees what is committed by then."""
    return await run_async(steps, lambda ask: connection.run(bind(ask.sql, ask.values)))
