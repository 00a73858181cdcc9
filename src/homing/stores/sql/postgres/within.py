"""Adding inside the caller's own transaction, on a connection of any of the known libraries.

What is said to the server is decided once, by `_adding`, as a sequence of statements; they are run
on the caller's connection, awaited or not. A savepoint surrounds them: a key that another
transaction takes at the same moment, or any other refusal, leaves the caller's transaction usable,
with nothing half written.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator, Sequence
from typing import TypeAlias, cast

import psycopg

from homing.domain.delivery import Fact, New
from homing.domain.errors import (
    HomingError,
    InvalidRequest,
    StoreError,
    StoreLocked,
    StoreUnavailable,
)
from homing.domain.writes import write_of_new
from homing.ports import Added, Existing, Put
from homing.stores.judging import Judged
from homing.stores.sql.knowledge import Knowledge
from homing.stores.sql.layouts import LayoutTables
from homing.stores.sql.postgres.exactly import put_exactly
from homing.stores.sql.postgres.faults import MEANINGS
from homing.stores.sql.postgres.layout_rows import BEGIN_OWN, END_OWN
from homing.stores.sql.postgres.statement import Statement, Steps, run, run_async
from homing.stores.sql.postgres.within_connections import is_awaited, open_async, open_sync
from homing.stores.sql.postgres.within_tables import SEEN_TABLES, OwnTables

_SAVEPOINT = Statement("savepoint homing")
_UNDO = Statement("rollback to savepoint homing")
_RELEASE = Statement("release savepoint homing")

# A second look sees what another transaction has committed meanwhile, unless the isolation level of
# the caller shows nothing new: then the unique index refuses again.
_LOOKS = 3
_UNIQUE_VIOLATION = "23505"
_NO_TRANSACTION = "25P01"
_FAILED_TRANSACTION = "25P02"

Answers: TypeAlias = list[Added | Existing]


class PostgresTransaction:
    """The caller's open transaction. What is added is committed or rolled back with it."""

    def __init__(
        self, connection: object, own: OwnTables, layouts: LayoutTables | None = None
    ) -> None:
        self._connection = connection
        self._own = own
        self._layouts = layouts

    def add(self, new: Sequence[New], facts: Sequence[Fact] = ()) -> Answers:
        connection = open_sync(self._connection)
        return run(_adding(new, facts, self._own, self._layouts), connection.run)


class PostgresAsyncTransaction:
    """The same for an event loop, which goes on meanwhile: a driver that blocks is run in a thread.

    If the call is cancelled there, the statement under way is cancelled, too, and awaited: what
    follows it would run in the caller's next transaction.
    """

    def __init__(
        self, connection: object, own: OwnTables, layouts: LayoutTables | None = None
    ) -> None:
        self._connection = connection
        self._own = own
        self._layouts = layouts

    async def add(self, new: Sequence[New], facts: Sequence[Fact] = ()) -> Answers:
        if is_awaited(self._connection):
            awaited = await open_async(self._connection)
            await self._own.look_async()
            return await run_async(_adding(new, facts, self._own, self._layouts), awaited.run)
        connection = open_sync(self._connection)
        steps = _adding(new, facts, self._own, self._layouts)
        running = asyncio.ensure_future(asyncio.to_thread(run, steps, connection.run))
        try:
            return await asyncio.shield(running)
        except asyncio.CancelledError:
            connection.cancel()
            await asyncio.wait([running])
            raise


def _adding(
    new: Sequence[New], facts: Sequence[Fact], own: OwnTables, layouts: LayoutTables | None
) -> Steps[Answers]:
    puts = [Put([write_of_new(one) for one in new], facts)]
    with _in_our_words():
        if layouts:
            yield BEGIN_OWN
        yield _SAVEPOINT
        try:
            own.refuse_others((yield SEEN_TABLES))
            judged = yield from _putting(puts, layouts)
        except Exception:
            with contextlib.suppress(Exception):  # the connection is lost; the first error says it
                yield _UNDO
                yield _RELEASE
                if layouts:
                    yield END_OWN
            raise
        yield _RELEASE
        if layouts:
            yield END_OWN
    return cast("Answers", judged.answers[0])


def _putting(puts: Sequence[Put], layouts: LayoutTables | None) -> Steps[Judged]:
    """First without a look at what is stored; if something is in the way, with one."""
    looks = 0
    while True:
        try:
            knowledge = Knowledge(assumes_free=looks == 0)
            return (yield from put_exactly(puts, knowledge, layouts))
        except Exception as error:
            looks += 1
            if looks == _LOOKS or _code(error) != _UNIQUE_VIOLATION:
                raise
            yield _UNDO


@contextlib.contextmanager
def _in_our_words() -> Iterator[None]:
    try:
        yield
    except HomingError:
        raise
    except Exception as error:
        meaning = _meaning(error)
        if meaning is None:
            raise
        raise meaning from error


def _meaning(error: Exception) -> HomingError | None:
    """Of an error of any driver; None for a bug of ours."""
    code, text = _code(error), str(error).strip().partition("\n")[0]
    if code == _NO_TRANSACTION:
        return InvalidRequest("within", "no transaction is open on this connection")
    if code == _FAILED_TRANSACTION:
        return InvalidRequest("within", "the transaction has failed already: roll it back")
    if code == _UNIQUE_VIOLATION:
        return StoreLocked(
            "another transaction has stored this key since yours began: roll back and try again"
        )
    if code is not None:
        kind = MEANINGS.get(code) or MEANINGS.get(code[:2], StoreError)
        return kind(f"your connection: {text} ({code})")
    is_of_driver = isinstance(error, psycopg.Error | OSError)
    if is_of_driver or type(error).__module__.startswith("asyncpg"):
        return StoreUnavailable(f"your connection: {text or type(error).__name__}")
    return None


def _code(error: Exception) -> str | None:
    code = getattr(error, "sqlstate", None)
    return code if isinstance(code, str) else None
