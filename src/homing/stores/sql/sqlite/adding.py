"""Add unless taken: first ask which ids and keys are, then write all that is new in wide rows.

Nobody else writes in between, so the answer stays true until the commit.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct

from homing.domain.delivery import Delivery, Fact, Key, New
from homing.ports import Added, Existing
from homing.stores.sql.sqlite.rows import CARRIES_PAYLOAD, Row, delivery_row, number, with_children
from homing.stores.sql.sqlite.session import Session
from homing.stores.sql.statements import Bulk, load

_SQL = load(__package__, "add.sql")
_TAKEN_IDS = Bulk(_SQL["taken_ids"], widest=256)
_TAKEN_KEYS = Bulk(_SQL["taken_keys"], widest=256)
_INSERT_DELIVERIES = Bulk(_SQL["insert_deliveries"])
_INSERT_CONTENTS = Bulk(_SQL["insert_contents"])
_INSERT_RECIPIENTS = Bulk(_SQL["insert_recipients"])
_PUT_KEYS = Bulk(_SQL["put_keys"])


class Entry(Struct, gc=False):
    """A new delivery with its row, encoded before it comes to the writer."""

    new: New
    row: Row
    children: Sequence[Entry] = ()


class AddRequest(Struct, gc=False):
    entries: list[Entry]
    facts: Sequence[Fact]


def entry_of(new: New) -> Entry:
    carries = CARRIES_PAYLOAD if new.payload else 0
    row = delivery_row(new.delivery, carries)
    if not new.children:
        return Entry(new, row)
    return Entry(new, row, [entry_of(child) for child in new.children])


def add_all(session: Session, requests: Sequence[AddRequest]) -> list[list[Added | Existing]]:
    """Each request in turn sees what those before it have added."""
    adding = Adding(session, [entry for request in requests for entry in request.entries])
    answers = []
    for request in requests:
        answers.append([adding.add(entry) for entry in request.entries])
        session.note(request.facts)
    adding.write()
    return answers


class Adding:
    """What is taken, and the rows that are new."""

    def __init__(self, session: Session, entries: Sequence[Entry]) -> None:
        self._session = session
        self._ids: set[str] = set()
        self._keys: dict[tuple[str, str], Key] = {}
        self._next_seq = 1
        self._deliveries: list[Row] = []
        self._contents: list[Row] = []
        self._recipients: list[Row] = []
        self._new_keys: dict[tuple[str, str], Key] = {}
        if entries:
            self._look_up([new for entry in entries for new in _family(entry.new)])

    def _look_up(self, family: list[New]) -> None:
        for newest, taken in self._session.ask_about(
            _TAKEN_IDS, [(new.delivery.id,) for new in family]
        ):
            if taken is not None:
                self._ids.add(taken.decode())
            elif newest is not None:
                self._next_seq = newest + 1
        keys = [(key.source, key.key) for new in family for key in new.keys]
        for *texts, expires_at_ms in self._session.ask_about(_TAKEN_KEYS, keys):
            source, name, delivery_id, fingerprint = (text.decode() for text in texts)
            key = Key(source, name, delivery_id, fingerprint, expires_at_ms)
            self._keys[source, name] = key

    def add(self, entry: Entry) -> Added | Existing:
        """All of it or nothing; but a child that is taken is left out and not counted."""
        new, row = entry.new, entry.row
        delivery = new.delivery
        taken = self._taken(new)
        if taken is not None:
            return taken
        seq = self._next_seq
        self._next_seq += 1
        self._ids.add(delivery.id)
        for key in new.keys:
            self._keys[key.source, key.key] = self._new_keys[key.source, key.key] = key
        open_children = self.add_children(entry.children)
        due_at_ms = delivery.due_at_ms
        if delivery.state == "waiting":
            due_at_ms = None if open_children else delivery.updated_at_ms
        if open_children or due_at_ms != delivery.due_at_ms:
            row = with_children(row, open_children, due_at_ms)
        self._deliveries.append((*row, seq))
        if new.payload:
            # As with None: bytes go a long way round, a bytearray does not.
            self._contents.append((seq, bytearray(new.payload)))
        if delivery.recipients:
            self._recipients += _addresses(seq, delivery)
        if due_at_ms is not None and delivery.state != "in_flight":
            self._session.news = True
        self._session.note(new.facts)
        return Added(delivery.id)

    def add_children(self, children: Sequence[Entry]) -> int:
        """How many of them are newly open."""
        return sum(
            isinstance(self.add(child), Added) and not child.new.delivery.is_terminal
            for child in children
        )

    def _taken(self, new: New) -> Existing | None:
        for key in new.keys:
            stored = self._keys.get((key.source, key.key))
            if stored is not None and not _is_expired(stored, new.delivery.created_at_ms):
                return Existing(stored.delivery_id, stored)
        return Existing(new.delivery.id) if new.delivery.id in self._ids else None

    def write(self) -> None:
        session = self._session
        session.write(_INSERT_DELIVERIES, self._deliveries)
        session.write(_INSERT_CONTENTS, self._contents)
        session.write(_INSERT_RECIPIENTS, self._recipients)
        session.write(
            _PUT_KEYS,
            [
                (key.source, key.key, key.delivery_id, key.fingerprint, number(key.expires_at_ms))
                for key in self._new_keys.values()
            ],
        )


def note_recipients(session: Session, seq: int, delivery: Delivery) -> None:
    session.write(_INSERT_RECIPIENTS, _addresses(seq, delivery))


def _addresses(seq: int, delivery: Delivery) -> list[Row]:
    return [(recipient.address, seq) for recipient in delivery.recipients]


def _family(new: New) -> Iterator[New]:
    yield new
    for child in new.children:
        yield from _family(child)


def _is_expired(key: Key, now_ms: int) -> bool:
    return key.expires_at_ms is not None and key.expires_at_ms <= now_ms
