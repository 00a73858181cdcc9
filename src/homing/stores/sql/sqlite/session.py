"""One write transaction: it runs statements, and writes what was noted at its end."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from homing.domain.delivery import Fact
from homing.domain.errors import StoreError
from homing.stores.sql.columns import Row
from homing.stores.sql.sqlite.counts import Counts
from homing.stores.sql.sqlite.rows import PARTS, fact_row
from homing.stores.sql.statements import Bulk, load

_ADD = load(__package__, "add.sql", PARTS)
_PUT_FACTS = Bulk(_ADD["put_facts"])
_PUT_COUNTS = Bulk(_ADD["put_counts"])
_DROP_FACT = _ADD["drop_fact"]


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
    `news` becomes true when something may have become due. With `exact` it reads what is stored
    before it writes; without it a session may end in NotAsAssumed. `looks_for_keys`: it reads
    which keys are stored, whether or not it is `exact`.
    """

    def __init__(
        self, connection: sqlite3.Connection, *, exact: bool = True, looks_for_keys: bool = True
    ) -> None:
        self.exact = exact
        self.looks_for_keys = looks_for_keys
        self._connection = connection
        self._cursor = sqlite3.Cursor(connection)
        self._facts: dict[tuple[str, str], Fact] = {}
        self.counts = Counts()
        self.news = False

    def close(self) -> None:
        """The trace of an error may refer to the session for long. A statement that it has not let
        go would keep the file open after its connection was closed."""
        self._cursor.close()

    def run(self, statement: str, parameters: Sequence[Any] = ()) -> int:
        """Run one statement; how many rows it changed."""
        return self._cursor.execute(statement, parameters).rowcount

    def run_each(self, statement: str, rows: Iterable[Sequence[Any]]) -> None:
        self._cursor.executemany(statement, rows)

    def ask(self, statement: str, parameters: Sequence[Any] | Mapping[str, Any] = ()) -> list[Row]:
        return self._cursor.execute(statement, parameters).fetchall()

    def write(self, bulk: Bulk, rows: Sequence[Row]) -> int:
        """Write many rows; how many were changed."""
        changed = 0
        for statement, parameters in bulk.whole(rows):
            changed += self._cursor.execute(statement, parameters).rowcount
        return changed

    def write_filled(self, bulk: Bulk, rows: Sequence[Row], filler: Row) -> None:
        """As `write`, if the statement passes over the filler."""
        for statement, parameters in bulk.filled(rows, filler):
            self._cursor.execute(statement, parameters)

    def prove(self, changed: int, assumed: int) -> None:
        if changed != assumed:
            raise NotAsAssumed(f"{changed} row(s) were changed instead of {assumed}")

    def ask_about(self, bulk: Bulk, rows: Sequence[Row]) -> list[Row]:
        found: list[Row] = []
        for statement, parameters in bulk.padded(rows):
            found += self._cursor.execute(statement, parameters).fetchall()
        return found

    def note(self, facts: Iterable[Fact]) -> None:
        """Facts are written at the end; the last value of a key counts."""
        for fact in facts:
            self._facts[fact.kind, fact.key] = fact

    def finish(self) -> None:
        """Write what was only noted."""
        if self.counts:
            self.write(_PUT_COUNTS, self.counts.rows())
        if not self._facts:
            return
        facts = self._facts.values()
        self.write(_PUT_FACTS, [fact_row(fact) for fact in facts if fact.value is not None])
        gone = [(fact.kind, fact.key) for fact in facts if fact.value is None]
        if gone:
            self.run_each(_DROP_FACT, gone)
