"""An add as one statement, for our own connections and for those of callers.

Nothing here talks to the server. `Adding` gives the statement; its caller runs it and hands back
the rows that it returned, until there is no further statement:

    adding = Adding([request])
    while (statement := adding.statement()) is not None:
        adding.learn(await run(statement))
    adding.answers

The statement writes everything, unless a key is taken: then it writes nothing and says which, and
the next one leaves out what is refused. If another transaction takes a key or an id at the same
moment, the server refuses the statement (unique violation): roll it back, call `collide`, and go
on with the next one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from msgspec import Struct

from homing.domain.delivery import Fact, Key, New
from homing.domain.writes import Write, write_of_new
from homing.ports import Added, Existing
from homing.stores.codec import encode_text
from homing.stores.sql.columns import PLACES, Row
from homing.stores.sql.postgres.arrays import Array
from homing.stores.sql.postgres.rows import (
    CARRIES_PAYLOAD,
    CARRIES_RESULTS,
    NAMES,
    PARTS,
    Facts,
    delivery_row,
    has_ended,
    row_source,
)
from homing.stores.sql.postgres.statement import Statement, bind
from homing.stores.sql.statements import load

_KEY_COLUMNS = (
    *("source", "name", "delivery_id", "fingerprint", "expires_at_ms", "free_by_ms", "is_put"),
)
_SQL = load(__package__, "add.sql", PARTS | {"key_columns": ", ".join(_KEY_COLUMNS)})
_COMMA = ",\n"
_DUE = PLACES["due_at_ms"]


class NewEntry(Struct, gc=False):
    """A write of a new delivery, encoded."""

    write: Write
    row: Row
    record: str
    carries: int
    children: Sequence[NewEntry] = ()


class AddRequest(Struct, gc=False):
    """What one call of `add` asks for."""

    entries: list[NewEntry]
    facts: Sequence[Fact] = ()
    # A lost transaction has perhaps stored it.
    may_be_stored: bool = False


def add_request(new: Sequence[New], facts: Sequence[Fact] = ()) -> AddRequest:
    return AddRequest([new_entry(write_of_new(one)) for one in new], facts)


def new_entry(write: Write) -> NewEntry:
    carries = CARRIES_PAYLOAD if write.payload else 0
    if write.results:
        carries |= CARRIES_RESULTS
    entry = NewEntry(write, delivery_row(write.delivery), encode_text(write.delivery), carries)
    if write.children:
        entry.children = [new_entry(child) for child in write.children]
    return entry


class Adding:
    """Each request in turn sees what those before it have added."""

    def __init__(self, requests: Sequence[AddRequest]) -> None:
        self._requests = requests
        self._taken_ids: set[str] = set()
        self._taken_keys: dict[tuple[str, str], Key] = {}
        self._looks_at_ids = False
        self._is_done = False
        self.answers: list[list[Added | Existing]] = []
        self.wakes = False

    def statement(self) -> Statement | None:
        """The next one to run; None when all is stored, or refused."""
        if self._is_done:
            return None
        rows = NewRows(self._taken_ids, self._taken_keys)
        self.answers = []
        for request in self._requests:
            self.answers.append([rows.add(entry) for entry in request.entries])
            rows.facts.note(request.facts)
        self.wakes = rows.wakes
        return rows.statement(looks_at_ids=self._looks_at_ids)

    def learn(self, found: Sequence[Row]) -> None:
        """What the statement returned: who has taken what. Nothing taken: everything is stored."""
        self._is_done = not note_taken(found, self._taken_ids, self._taken_keys)

    def collide(self) -> None:
        """Something was taken meanwhile, perhaps an id: the next statement looks at these too."""
        self._looks_at_ids = True


class NewRows:
    """The rows of new deliveries, judged one after the other against what is known to be taken."""

    def __init__(self, ids: set[str], keys: dict[tuple[str, str], Key]) -> None:
        self._ids = set(ids)
        self._keys = dict(keys)
        self._known_keys = keys
        self.wakes = False
        self._wanted_keys: dict[tuple[str, str], Row] = {}
        self._open: list[Row] = []
        self._ended: list[Row] = []
        self._records: list[Row] = []
        self._results: list[Row] = []
        self._recipients: list[Row] = []
        self.facts = Facts()

    def add(self, entry: NewEntry) -> Added | Existing:
        """All of it or nothing; but a child that is taken is left out and not counted."""
        write = entry.write
        delivery = write.delivery
        taken = self._taken(write)
        if taken is not None:
            return taken
        delivery_id = delivery.id
        self._ids.add(delivery_id)
        for key in write.keys:
            name = key.source, key.key
            self._keys[name] = key
            put = (key.delivery_id, key.fingerprint, key.expires_at_ms)
            self._wanted_keys[name] = (*name, *put, write.free_by_ms, 1)
        row, open_children = entry.row, 0
        if entry.children:
            open_children = self.add_children(entry.children)
        if write.due_at_zero_ms is not None:
            due = None if open_children else write.due_at_zero_ms
            row = (*row[:_DUE], due, *row[_DUE + 1 :])
        payload = write.payload or b""
        rows = self._ended if has_ended(delivery.state) else self._open
        rows.append((*row, open_children, entry.carries, len(payload), 0, None, None))
        self._records.append((delivery_id, entry.record, payload or None))
        for stage, data in write.results.items():
            self._results.append((delivery_id, stage, data))
        for recipient in delivery.recipients:
            self._recipients.append((recipient.address, delivery_id))
        if write.wakes:
            self.wakes = True
        if write.facts:
            self.facts.note(write.facts)
        return Added(delivery_id)

    def add_children(self, children: Sequence[NewEntry]) -> int:
        """What they add to their parent's counter."""
        return sum(child.write.opens for child in children if isinstance(self.add(child), Added))

    def _taken(self, write: Write) -> Existing | None:
        """A key comes before the id, so it is asked for even if the id is known to be taken."""
        for key in write.keys:
            name = key.source, key.key
            stored = self._keys.get(name)
            if name not in self._known_keys and name not in self._wanted_keys:
                self._wanted_keys[name] = (*name, None, None, None, write.free_by_ms, 0)
            if stored is not None and not _is_free(stored, write.free_by_ms):
                return Existing(stored.delivery_id, stored)
        return Existing(write.delivery.id) if write.delivery.id in self._ids else None

    def statement(self, *, looks_at_ids: bool) -> Statement | None:
        """None if there is nothing to write."""
        if not self._records and not self.facts:
            return None
        values: dict[str, Any] = {}
        taken, steps = [], []
        if self._wanted_keys:
            taken.append(_SQL["taken_keys"])
            wanted = list(self._wanted_keys.values())
            steps.append(_part("wanted_keys", "key", _KEY_COLUMNS, wanted, values))
        if looks_at_ids:
            taken.append(_SQL["taken_ids"])
            values["id"] = Array("text", [row[0] for row in self._records])
        looked = "\nunion all\n".join(taken or [_SQL["nothing_taken"]])
        steps += [f"taken as materialized (\n{looked}\n)", _SQL["free"]]
        if any(row[-1] for row in self._wanted_keys.values()):
            steps.append(_SQL["keys"])
        steps += self._steps(values)
        answer = _SQL["answer_and_notify" if self.wakes else "answer"]
        return bind(f"with {_COMMA.join(steps)}\n{answer}", values)

    def _steps(self, values: dict[str, Any]) -> Iterator[str]:
        """The parts of a statement that write all but the keys; their values are added."""
        for part, prefix, columns, rows in (
            ("records", "record", ("id", "record", "payload"), self._records),
            ("open", "open", NAMES, self._open),
            ("ended", "ended", NAMES, self._ended),
            ("results", "result", ("id", "name", "data"), self._results),
            ("recipients", "recipient", ("address", "id"), self._recipients),
        ):
            if rows:
                yield _part(part, prefix, columns, rows, values)
        for part in self.facts.parts(values):
            yield _SQL[part]


def _part(
    part: str, prefix: str, columns: tuple[str, ...], rows: Sequence[Row], values: dict[str, Any]
) -> str:
    """A part of the statement that writes these rows; their values are added."""
    source, given = row_source(prefix, columns, rows)
    values |= given
    return _SQL[part].replace(f":{prefix}_rows:", source)


def note_taken(found: Sequence[Row], ids: set[str], keys: dict[tuple[str, str], Key]) -> bool:
    """Whether the statement found anything taken; then it has written nothing."""
    was_taken = False
    for source, name, delivery_id, fingerprint, expires_at_ms in found:
        if delivery_id is None:
            continue  # the row of the notification
        was_taken = True
        if source is None:
            ids.add(delivery_id)
        else:
            keys[source, name] = Key(source, name, delivery_id, fingerprint, expires_at_ms)
    return was_taken


def _is_free(key: Key, by_ms: int) -> bool:
    return key.expires_at_ms is not None and key.expires_at_ms <= by_ms
