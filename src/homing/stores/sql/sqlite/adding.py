"""Add unless taken: first read which ids and keys are, then write all new rows in few statements.

No other connection writes in between, so what was read stays true until the commit. Ids are made
to be unique and most keys are new, so both are first assumed to be free, and the insert proves it
(`Session.exact`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct

from homing.domain.delivery import Delivery, Fact, Key
from homing.domain.writes import Write
from homing.ports import Added, Existing
from homing.stores.codec import encode_text
from homing.stores.sql.columns import Row
from homing.stores.sql.sqlite.adding_new import add_new, plain_row
from homing.stores.sql.sqlite.inserts import (
    ADD_SQL,
    INSERT_DELIVERIES,
    INSERT_KEYS,
    INSERT_PAYLOADS,
    INSERT_RECIPIENTS,
    INSERT_RECORDS,
)
from homing.stores.sql.sqlite.rows import (
    CARRIES_PAYLOAD,
    CARRIES_RESULTS,
    DUE,
    bound,
    delivery_row,
)
from homing.stores.sql.sqlite.session import Session, assuming_free
from homing.stores.sql.statements import Bulk

_TAKEN_IDS = Bulk(ADD_SQL["taken_ids"], widest=256)
_TAKEN_KEYS = Bulk(ADD_SQL["taken_keys"], widest=256)
_PUT_KEYS = Bulk(ADD_SQL["put_keys"])
PUT_RECORDS = Bulk(ADD_SQL["put_records"])
PUT_PAYLOADS = Bulk(ADD_SQL["put_payloads"])
PUT_RESULTS = Bulk(ADD_SQL["put_results"])


class NewEntry(Struct, gc=False):
    """A write of a new delivery, encoded before it comes to the writer, which gives it its seq."""

    write: Write
    record: str
    plain: Row | None
    children: Sequence[NewEntry] = ()
    seq: int = 0


class AddRequest(Struct, gc=False):
    entries: list[NewEntry]
    facts: Sequence[Fact]


def new_entry(write: Write) -> NewEntry:
    record = encode_text(write.delivery)
    entry = NewEntry(write, record, plain_row(write, record))
    if write.children:
        entry.children = [new_entry(child) for child in write.children]
    return entry


def add_all(session: Session, requests: Sequence[AddRequest]) -> list[list[Added | Existing]]:
    """Each request in turn sees what those before it have added."""
    if (rows := plain_rows(session, requests)) is not None:
        add_new(session, rows)
        return all_added(requests)
    adding = Adding(session)
    if session.exact or session.looks_for_keys:
        entries = [entry for request in requests for entry in request.entries]
        adding.look_up(entries, ids=session.exact)
    answers = []
    for request in requests:
        answers.append([adding.add(entry) for entry in request.entries])
        session.note(request.facts)
    adding.write()
    return answers


def all_added(requests: Sequence[AddRequest]) -> list[list[Added | Existing]]:
    """The answers once `add_new` has added all."""
    return [[Added(entry.write.delivery.id) for entry in one.entries] for one in requests]


def plain_rows(session: Session, requests: Sequence[AddRequest]) -> list[Row] | None:
    """For `add_new`, if all are plain and their ids and keys are assumed to be free, else None."""
    if session.exact or session.looks_for_keys:
        return None
    rows: list[Row] = []
    for request in requests:
        if request.facts:
            return None
        for entry in request.entries:
            if entry.plain is None:
                return None
            rows.append(entry.plain)
    return rows


class Adding:
    """What is taken, and the rows that are new. What was not looked up is assumed to be free."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._ids: set[str] = set()
        self._keys: dict[tuple[str, str], Key] = {}
        self._has_looked = False
        self._deliveries: list[Row] = []
        self._records: list[Row] = []
        self._payloads: list[Row] = []
        self._results: list[Row] = []
        self._recipients: list[Row] = []
        self._new_keys: list[Row] = []
        [(newest,)] = session.ask(ADD_SQL["newest"])
        self._next_seq = (newest or 0) + 1

    def look_up(self, entries: Sequence[NewEntry], *, ids: bool = True) -> None:
        """Which keys of these are taken, and which ids."""
        family = [write for entry in entries for write in _family(entry.write)]
        if ids:
            asked = [(write.delivery.id,) for write in family]
            self._ids.update(
                taken.decode() for (taken,) in self._session.ask_about(_TAKEN_IDS, asked)
            )
        keys = [(key.source, key.key) for write in family for key in write.keys]
        for *texts, expires_at_ms in self._session.ask_about(_TAKEN_KEYS, keys):
            source, name, delivery_id, fingerprint = (text.decode() for text in texts)
            key = Key(source, name, delivery_id, fingerprint, expires_at_ms)
            self._keys[source, name] = key
        self._has_looked = True

    def add(self, entry: NewEntry) -> Added | Existing:
        """All of it or nothing; but a child that is taken is left out and not counted."""
        write = entry.write
        delivery = write.delivery
        names = [(key.source, key.key) for key in write.keys]
        taken = self._taken(write, names)
        if taken is not None:
            return taken
        seq = entry.seq = self._next_seq
        self._next_seq = seq + 1
        self._ids.add(delivery.id)
        self._session.counts.add(delivery)
        for name, key in zip(names, write.keys, strict=True):
            self._keys[name] = key
            self._new_keys.append(
                (*name, key.delivery_id, key.fingerprint, bound(key.expires_at_ms))
            )
        self._deliveries.append(self._row(entry, seq))
        self._records.append((seq, entry.record))
        if write.payload:
            # Binding bytes is slow (Python looks for an adapter); a bytearray is bound at once.
            self._payloads.append((seq, bytearray(write.payload)))
        for result, data in write.results.items():
            self._results.append((seq, result, bytearray(data)))
        if delivery.recipients:
            self._recipients += _addresses(seq, delivery)
        if write.wakes:
            self._session.news = True
        if write.facts:
            self._session.note(write.facts)
        return Added(delivery.id)

    def _row(self, entry: NewEntry, seq: int) -> Row:
        write = entry.write
        row, due_at_zero_ms = delivery_row(write.delivery), write.due_at_zero_ms
        open_children = self.add_children(entry.children) if entry.children else 0
        if due_at_zero_ms is not None:
            due = bound(None if open_children else due_at_zero_ms)
            row = (*row[:DUE], due, *row[DUE + 1 :])
        carries = CARRIES_PAYLOAD if write.payload else 0
        if write.results:
            carries |= CARRIES_RESULTS
        return (*row, open_children, carries, seq)

    def add_children(self, children: Sequence[NewEntry]) -> int:
        """What they add to their parent's counter."""
        return sum(child.write.opens for child in children if isinstance(self.add(child), Added))

    def _taken(self, write: Write, names: Sequence[tuple[str, str]]) -> Existing | None:
        for name in names:
            stored = self._keys.get(name)
            if stored is not None and not _is_free(stored, write.free_by_ms):
                return Existing(stored.delivery_id, stored)
        return Existing(write.delivery.id) if write.delivery.id in self._ids else None

    def write(self) -> None:
        session = self._session
        with assuming_free:
            session.write(INSERT_DELIVERIES, self._deliveries)
        session.write(INSERT_RECORDS, self._records)
        session.write(INSERT_PAYLOADS, self._payloads)
        session.write(PUT_RESULTS, self._results)
        session.write(INSERT_RECIPIENTS, self._recipients)
        with assuming_free:
            session.write(_PUT_KEYS if self._has_looked else INSERT_KEYS, self._new_keys)


def note_recipients(session: Session, seq: int, delivery: Delivery) -> None:
    session.write(INSERT_RECIPIENTS, _addresses(seq, delivery))


def _addresses(seq: int, delivery: Delivery) -> list[Row]:
    return [(recipient.address, seq) for recipient in delivery.recipients]


def _family(write: Write) -> Iterator[Write]:
    yield write
    for child in write.children:
        yield from _family(child)


def _is_free(key: Key, by_ms: int) -> bool:
    return key.expires_at_ms is not None and key.expires_at_ms <= by_ms
