"""Connections of the caller: how each library's is recognised, and how a statement runs on it.

A library is recognised by the names of its classes, so that none of them is imported here but
psycopg, which the store itself uses.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol

import psycopg
from psycopg.rows import tuple_row

from homing.domain.errors import InvalidRequest
from homing.stores.sql.columns import Row
from homing.stores.sql.postgres.arrays import Array, packed, teach
from homing.stores.sql.postgres.statement import Statement

_SESSIONS = frozenset({"sqlalchemy.orm.session.Session", "sqlalchemy.orm.scoping.scoped_session"})
_CONNECTIONS = frozenset({"sqlalchemy.engine.base.Connection"})
_ASYNC_SESSIONS = frozenset(
    {
        "sqlalchemy.ext.asyncio.session.AsyncSession",
        "sqlalchemy.ext.asyncio.scoping.async_scoped_session",
    }
)
_ASYNC_CONNECTIONS = frozenset({"sqlalchemy.ext.asyncio.engine.AsyncConnection"})
_DJANGO = frozenset(
    {"django.db.backends.base.base.BaseDatabaseWrapper", "django.utils.connection.ConnectionProxy"}
)
_ASYNCPG = frozenset({"asyncpg.connection.Connection", "asyncpg.pool.PoolConnectionProxy"})

# SQLAlchemy begins its transaction, and that of the driver, with its first statement.
_BEGIN = "select 1"


class AsyncConnection(Protocol):
    """A driver's connection whose statements are awaited."""

    async def run(self, statement: Statement) -> list[Row]: ...


class Psycopg:
    """With a cursor of our own: the caller's row factory and cursor class are not used."""

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self._connection = connection

    def cancel(self) -> None:
        """End the statement that is running, from any thread."""
        self._connection.cancel()

    def run(self, statement: Statement) -> list[Row]:
        with psycopg.RawCursor(self._connection, row_factory=tuple_row) as cursor:
            teach(cursor)
            cursor.execute(statement.sql.encode(), packed(statement.parameters))
            return cursor.fetchall() if cursor.description else []


class AsyncPsycopg:
    """As `Psycopg`."""

    def __init__(self, connection: psycopg.AsyncConnection[Any]) -> None:
        self._connection = connection

    async def run(self, statement: Statement) -> list[Row]:
        async with psycopg.AsyncRawCursor(self._connection, row_factory=tuple_row) as cursor:
            teach(cursor)
            await cursor.execute(statement.sql.encode(), packed(statement.parameters))
            return await cursor.fetchall() if cursor.description else []


class Asyncpg:
    """It packs arrays itself."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    async def run(self, statement: Statement) -> list[Row]:
        values = [
            value.values if isinstance(value, Array) else value for value in statement.parameters
        ]
        return [tuple(row) for row in await self._connection.fetch(statement.sql, *values)]


def is_awaited(connection: object) -> bool:
    """Whether the statements of this connection are awaited."""
    return _is(connection, _ASYNC_SESSIONS | _ASYNC_CONNECTIONS | _ASYNCPG) or isinstance(
        connection, psycopg.AsyncConnection
    )


def open_sync(connection: object) -> Psycopg:
    """The driver's connection inside; refused if there is none."""
    inner: Any = connection
    with _usable():
        if _is(inner, _SESSIONS):
            inner = inner.connection()
        if _is(inner, _CONNECTIONS):
            inner.exec_driver_sql(_BEGIN)
            inner = inner.connection.driver_connection
        elif _is(inner, _DJANGO):
            inner.ensure_connection()
            inner = inner.connection
    if isinstance(inner, psycopg.Connection):
        return Psycopg(inner)
    if is_awaited(inner):
        raise InvalidRequest(
            "within", f"a {_kind(inner)} is awaited: use `await homing.submit(…, within=…)`"
        )
    raise _unknown(connection, inner)


async def open_async(connection: object) -> AsyncConnection:
    """As `open_sync`, for a connection that `is_awaited`."""
    inner: Any = connection
    with _usable():
        if _is(inner, _ASYNC_SESSIONS):
            inner = await inner.connection()
        if _is(inner, _ASYNC_CONNECTIONS):
            await inner.exec_driver_sql(_BEGIN)
            inner = (await inner.get_raw_connection()).driver_connection
    if isinstance(inner, psycopg.AsyncConnection):
        return AsyncPsycopg(inner)
    if _is(inner, _ASYNCPG):
        return Asyncpg(inner)
    raise _unknown(connection, inner)


@contextmanager
def _usable() -> Iterator[None]:
    """The libraries say themselves why not: closed, failed, or not from an event loop."""
    try:
        yield
    except Exception as error:
        text = str(error).strip().partition("\n")[0]
        raise InvalidRequest("within", f"the connection cannot be used: {text}") from error


def _is(connection: object, names: frozenset[str]) -> bool:
    return any(f"{kind.__module__}.{kind.__qualname__}" in names for kind in type(connection).mro())


def _kind(connection: object) -> str:
    return f"{type(connection).__module__}.{type(connection).__qualname__}"


def _unknown(given: object, inner: object) -> InvalidRequest:
    held = "" if inner is given else f" over {_kind(inner)}"
    return InvalidRequest(
        "within",
        f"{_kind(given)}{held} is not a connection to PostgreSQL that Homing can use: give one"
        " of psycopg 3, asyncpg, SQLAlchemy or Django",
    )
