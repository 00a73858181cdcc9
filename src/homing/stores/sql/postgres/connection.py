"""One connection to the server: opened when it is first needed, and again after it was lost."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from types import TracebackType
from typing import Any, Self, TypeAlias

import psycopg
from psycopg import AsyncConnection, AsyncCursor, AsyncRawCursor, conninfo, pq
from psycopg.errors import PipelineAborted

from homing.stores.sql.columns import Row
from homing.stores.sql.postgres.arrays import Packed, packed, teach
from homing.stores.sql.postgres.faults import ConnectionLost, ends_session, is_standby
from homing.stores.sql.postgres.statement import Statement

Postgres: TypeAlias = AsyncConnection[Row]

CONNECT_S = 5
STATEMENT_S = 6.0
# The server itself ends a statement earlier than that.
ANSWER_S = 7.5
LOCK_S = 3.0
# Statements sent ahead. A slow server must not be so far behind that it seems to be gone.
MOST_UNANSWERED = 16
# What a cursor may keep in memory until the next statement.
SMALL_BYTES = 65_536
# Plans must not depend on what the statistics say of a queue, which is empty at one moment and
# long at the next: each statement of ours has one right plan, by the indexes.
PLANS = {
    "enable_seqscan": "off",
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
    "enable_bitmapscan": "off",
    "enable_material": "off",
    "jit": "off",
    "plan_cache_mode": "force_generic_plan",
}
# The triggers on tables of layouts mark what others write there, and not what Homing writes.
OWN_WRITES = {"homing.writes": "on"}
LIMITS = {
    "statement_timeout": f"{STATEMENT_S:g}s",
    "lock_timeout": f"{LOCK_S:g}s",
    "idle_in_transaction_session_timeout": "30s",
}
SETTINGS = PLANS | LIMITS | OWN_WRITES
# Listings of people and counts may take longer.
SLOW_LIMITS = LIMITS | {"statement_timeout": "30s"}
SLOW_ANSWER_S = 35.0
_KEEPALIVES = {
    "keepalives_idle": "5",
    "keepalives_interval": "2",
    "keepalives_count": "3",
    "tcp_user_timeout": "7000",
}


async def connect(url: str) -> Postgres:
    given: dict[str, Any] = {"application_name": "homing", "connect_timeout": CONNECT_S}
    given |= _KEEPALIVES | conninfo.conninfo_to_dict(url)
    if "," in str(given.get("host", "")):
        # Of several servers, the one that takes writes: after a failover that is another one.
        given.setdefault("target_session_attrs", "read-write")
    return await AsyncConnection.connect(
        conninfo.make_conninfo(**given), autocommit=True, cursor_factory=AsyncRawCursor
    )


async def is_pooled(connection: Postgres) -> bool:
    """Whether a pooler such as PgBouncer stands between: then the session is not ours alone."""
    pid = await (await connection.execute("select pg_backend_pid()")).fetchone()
    return pid != (connection.info.backend_pid,)


class Connection:
    """Statements one after the other, each in a transaction of its own or several in one.

    Behind PgBouncer in transaction mode the settings are made anew in every transaction, and no
    statement is kept prepared. A server or a network that says nothing for `answer_s` is given up.
    """

    def __init__(
        self, url: str, settings: Mapping[str, str] = SETTINGS, answer_s: float = ANSWER_S
    ) -> None:
        self._url = url
        self._settings = dict(settings)
        self._answer_s = answer_s
        self._turn = asyncio.Lock()
        self._connection: Postgres | None = None
        self._cursor: AsyncCursor[Row] | None = None
        self._is_pooled = False
        self._waits_for_disk = True

    async def run(self, statement: Statement, *, durable: bool = True) -> list[Row]:
        """One statement in a transaction of its own, which is committed when this returns."""
        async with self._turn:
            connection = await self._opened()
            if self._is_pooled:
                async with self._transaction(connection) as session:
                    return await session.run(statement)
            with Watch(self, connection, self._answer_s):
                if durable is not self._waits_for_disk:
                    await self._wait_for_disk(connection, durable=durable)
                return await self._execute(connection, statement)

    async def _execute(self, connection: Postgres, statement: Statement) -> list[Row]:
        """With the cursor of the statement before, which knows how to pass each parameter."""
        cursor, self._cursor = self._cursor or connection.cursor(), None
        cursor.format = pq.Format.BINARY
        parameters = packed(statement.parameters)
        await cursor.execute(statement.sql, parameters)
        rows = await _rows(cursor)
        # A cursor keeps its parameters and its answer until the next statement.
        if len(rows) <= 1 and _size(parameters) + sum(map(_size, rows)) <= SMALL_BYTES:
            self._cursor = cursor
        return rows

    @contextlib.asynccontextmanager
    async def transaction(self, *, durable: bool = True) -> AsyncIterator[Session]:
        """Several statements, committed together."""
        async with self._turn, self._transaction(await self._opened(), durable=durable) as session:
            yield session

    @contextlib.asynccontextmanager
    async def _transaction(
        self, connection: Postgres, *, durable: bool = True
    ) -> AsyncIterator[Session]:
        durable = durable or self._is_pooled  # the session is not ours alone
        with Watch(self, connection, self._answer_s) as watch:
            if durable is not self._waits_for_disk:
                await self._wait_for_disk(connection, durable=durable)
            async with connection.transaction():
                if self._is_pooled:
                    await _apply(connection, self._settings, is_local=True)
                yield Session(connection, watch)
                watch.restart()

    async def _wait_for_disk(self, connection: Postgres, *, durable: bool) -> None:
        await connection.execute(f"set synchronous_commit to {'default' if durable else 'off'}")
        self._waits_for_disk = durable

    async def _opened(self) -> Postgres:
        connection = self._connection
        if connection is None or connection.closed:
            self._connection = self._cursor = None
            connection = await connect(self._url)
            teach(connection)
            self._waits_for_disk = True
            self._is_pooled = await is_pooled(connection)
            connection.prepare_threshold = None if self._is_pooled else 0
            if not self._is_pooled:
                await _apply(connection, self._settings, is_local=False)
            self._connection = connection
        return connection

    def failed(self, connection: Postgres, error: psycopg.Error) -> None:
        """A connection that is lost in use leaves it open whether the server has committed."""
        if connection.closed or ends_session(error):
            self._abandon()
            text = str(error).strip().partition("\n")[0]
            raise ConnectionLost(text or "the connection was lost") from error
        if is_standby(error):
            self._abandon()

    def _abandon(self) -> None:
        connection, self._connection, self._cursor = self._connection, None, None
        if connection is not None:
            connection.pgconn.finish()

    async def close(self) -> None:
        async with self._turn:
            connection, self._connection = self._connection, None
            if connection is not None:
                await connection.close()


class Watch:
    """Cuts a connection in use if the server does not answer in time, each time anew."""

    def __init__(self, owner: Connection, connection: Postgres, answer_s: float) -> None:
        self._owner = owner
        self._connection = connection
        self._answer_s = answer_s

    def __enter__(self) -> Self:
        self._start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._timer.cancel()
        if isinstance(error, psycopg.Error):
            self._owner.failed(self._connection, error)

    def _start(self) -> None:
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(self._answer_s, cut, self._connection)

    def restart(self) -> None:
        self._timer.cancel()
        self._start()


class Session:
    """Statements inside one transaction."""

    def __init__(self, connection: Postgres, watch: Watch) -> None:
        self._connection = connection
        self._watch = watch

    async def run(self, statement: Statement) -> list[Row]:
        self._watch.restart()
        return await _execute(self._connection, statement)

    @contextlib.asynccontextmanager
    async def sending(self) -> AsyncIterator[Callable[[Statement], Awaitable[None]]]:
        """Statements that the server runs one after the other, while more of them are made.

        The first error of any of them is raised by a later one, or at the end.
        """
        failed: psycopg.Error | None = None
        unanswered = 0
        try:
            async with self._connection.pipeline() as pipeline:

                async def send(statement: Statement) -> None:
                    nonlocal unanswered
                    self._watch.restart()
                    await _started(self._connection, statement)
                    unanswered += 1
                    if unanswered == MOST_UNANSWERED:
                        await pipeline.sync()
                        unanswered = 0

                try:
                    yield send
                except psycopg.Error as error:
                    failed = error  # else psycopg would log what the end of the pipeline says
        except PipelineAborted:
            if failed is None:
                raise
        if failed is not None:
            raise failed


async def _execute(connection: Postgres, statement: Statement) -> list[Row]:
    return await _rows(await _started(connection, statement))


async def _rows(cursor: AsyncCursor[Row]) -> list[Row]:
    # Not `description`: that makes an object per column, a tenth of the work of a small statement.
    answer = cursor.pgresult
    return await cursor.fetchall() if answer is not None and answer.nfields else []


def _size(values: Sequence[Any]) -> int:
    """In bytes, about."""
    plain = sum([len(value) for value in values if type(value) is bytes or type(value) is str])
    return plain + sum([len(value.data) for value in values if isinstance(value, Packed)])


async def _started(connection: Postgres, statement: Statement) -> AsyncCursor[Row]:
    return await connection.execute(statement.sql, packed(statement.parameters), binary=True)


def cut(connection: Postgres) -> None:
    """For the caller that waits for the answer, it is as if the server had closed the connection.

    A cancelled task would have psycopg ask the server to cancel, and wait for its answer.
    """
    with (
        contextlib.suppress(OSError, psycopg.Error),
        socket.socket(fileno=os.dup(connection.fileno())) as same,
    ):
        same.shutdown(socket.SHUT_RDWR)


async def _apply(connection: Postgres, settings: Mapping[str, str], *, is_local: bool) -> None:
    calls = ", ".join(
        f"set_config('{name}', '{value}', {str(is_local).lower()})"
        for name, value in settings.items()
    )
    await connection.execute(f"select {calls}", prepare=False)
