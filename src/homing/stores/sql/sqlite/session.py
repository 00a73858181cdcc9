"""One write transaction: it runs statements, and writes the changes of counts at its end."""

from __future__ import annotations

import heapq
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from typing import Any

from homing.domain.delivery import Delivery
from homing.domain.errors import StoreError
from homing.stores.sql.columns import Row
from homing.stores.sql.sqlite.counts import Counts
from homing.stores.sql.sqlite.rows import PARTS
from homing.stores.sql.statements import Bulk, load

_PUT_COUNTS = Bulk(load(__package__, "add.sql", PARTS)["put_counts"])


class NotAsAssumed(StoreError):
    """A statement met other rows than assumed: roll back, and read before writing."""


class KeyRepeated(NotAsAssumed):
    """A key that was assumed to be new is stored."""


_TAKEN = {
    sqlite3.SQLITE_CONSTRAINT_UNIQUE: NotAsAssumed,
    sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY: KeyRepeated,
}


class AssumingFree:
    """Ids and keys that are inserted in it were not looked for: indexes prove that they were free.

    A class, because a generator takes twice as long, for each commit.
    """

    def __enter__(self) -> None:
        """Nothing is prepared."""

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, sqlite3.IntegrityError):
            fault = _TAKEN.get(error.sqlite_errorcode)
            if fault is not None:
                raise fault(str(error)) from error


assuming_free = AssumingFree()


class Session:
    """Statements inside a transaction that its maker begins and commits.

    It uses cursors of its own, so that a caller's row factory is neither used nor changed.
    `news` becomes true when something may have become due, and `removed` are the deliveries whose
    records were removed.
    """

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._cursor = sqlite3.Cursor(connection)
        self.counts = Counts()
        self.removed: list[Delivery] = []
        self.news = False

    def close(self) -> None:
        """The trace of an error may refer to the session for long. A statement that it has not let
        go would keep the file open after its connection was closed."""
        self._cursor.close()

    def run(self, statement: str, parameters: Sequence[Any] = ()) -> int:
        """Run one statement. Returns the number of changed rows."""
        return self._cursor.execute(statement, parameters).rowcount

    def run_each(self, statement: str, rows: Iterable[Sequence[Any]]) -> None:
        self._cursor.executemany(statement, rows)

    def ask(self, statement: str, parameters: Sequence[Any] = ()) -> list[Row]:
        return self._cursor.execute(statement, parameters).fetchall()

    @contextmanager
    def stream(self, ranges: Sequence[tuple[str, Row]]) -> Iterator[Iterator[Row]]:
        """Rows of several ordered statements, merged; what is not taken from it is not read.
        Write only after its end."""
        with ExitStack() as stack:
            cursors = []
            for statement, parameters in ranges:
                cursor = stack.enter_context(closing(sqlite3.Cursor(self._connection)))
                cursors.append(cursor.execute(statement, parameters))
            yield cursors[0] if len(cursors) == 1 else heapq.merge(*cursors)

    def write(self, bulk: Bulk, rows: Sequence[Row]) -> int:
        """Write many rows. Returns the number of changed rows."""
        changed = 0
        for statement, parameters in bulk.whole(rows):
            changed += self._cursor.execute(statement, parameters).rowcount
        return changed

    def prove(self, changed: int, assumed: int) -> None:
        if changed != assumed:
            raise NotAsAssumed(f"{changed} row(s) were changed instead of {assumed}")

    def ask_about(self, bulk: Bulk, rows: Sequence[Row]) -> list[Row]:
        found: list[Row] = []
        for statement, parameters in bulk.padded(rows):
            found += self._cursor.execute(statement, parameters).fetchall()
        return found

    def finish(self) -> None:
        """Write by how much the counts change."""
        if self.counts:
            self.write(_PUT_COUNTS, self.counts.rows())
