"""Plain new deliveries, added by one statement, or many of them by a few.

Python's interpreter lock is released while a statement runs, and has to be got again after it. A
commit of many statements therefore waits many times for the event loop, which is busy. Here a
trigger writes all tables, and a statement outside of a transaction commits by itself: SQLite
writes, commits and syncs a group while the loop prepares the next one.

Ids and keys are assumed to be free. If one is taken, nothing is stored (`NotAsAssumed`).
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Sequence
from typing import Any

from homing.domain.delivery import Delivery, Key
from homing.domain.writes import Write
from homing.stores.sql.columns import Row
from homing.stores.sql.sqlite.inserts import (
    ADD_SQL,
    INSERT_KEYS,
    INSERT_PAYLOADS,
    INSERT_PLAIN,
    INSERT_RECIPIENTS,
    INSERT_RECORDS,
)
from homing.stores.sql.sqlite.rows import ABSENT, NAMES, PARTS, VARYING, is_usual, varying_row
from homing.stores.sql.sqlite.session import Session, assuming_free
from homing.stores.sql.statements import Bulk, load

WIDEST = 256

_SQL = load(__package__, "add_new.sql", PARTS)
_ADD = Bulk(_SQL["add_new"], widest=WIDEST)
_FILLER = ("", *[0] * (VARYING + 4))
_ROUTE, _QUEUE = NAMES.index("route"), NAMES.index("queue")
_SOURCE, _KEY = NAMES.index("source"), NAMES.index("key")


def make_ready(connection: sqlite3.Connection) -> None:
    """Of the connection that writes, once."""
    connection.execute("pragma temp_store = memory")
    connection.execute(_SQL["make_view"])
    connection.execute(_SQL["make_trigger"])
    connection.execute(_SQL["make_counting_trigger"])


def plain_row(write: Write, record: str) -> Row | None:
    """All that is stored of a new delivery; None if there is more than fits into such a row.

    The statement wakes the workers in any case, as a usual delivery does.
    """
    delivery = write.delivery
    if not is_usual(delivery) or write.children or write.results or write.facts:
        return None
    recipients = delivery.recipients
    fingerprint = _fingerprint(delivery, write.keys)
    if fingerprint is None or len(recipients) > 1 or not write.payload:
        return None
    # Binding bytes is slow (Python looks for an adapter); a bytearray is bound at once.
    payload = bytearray(write.payload)
    recipient = recipients[0].address if recipients else ABSENT
    return (*varying_row(delivery), record, payload, fingerprint, recipient, 0)


def _fingerprint(delivery: Delivery, keys: Sequence[Key]) -> Any:
    """That of its own key; None if it has other keys."""
    if not keys:
        return ABSENT if delivery.key is None else None
    key = keys[0]
    is_own = (
        len(keys) == 1
        and key.key == delivery.key
        and key.source == delivery.source
        and key.delivery_id == delivery.id
        and key.expires_at_ms is None
    )
    return key.fingerprint if is_own else None


def add_new(session: Session, rows: Sequence[Row]) -> None:
    """Up to `WIDEST` they are one statement. More are written table by table, which costs less."""
    places = [(row[_ROUTE], row[_QUEUE]) for row in rows]
    with assuming_free:
        if len(rows) <= WIDEST:
            session.write_filled(_ADD, _with_counts(rows, places), _FILLER)
        else:
            _write_tables(session, rows)
            for (route, queue), number in Counter(places).items():
                session.counts.add_open(route, queue, number)
    session.news = True


def _with_counts(rows: Sequence[Row], places: Sequence[tuple[str, str]]) -> list[Row]:
    """The first of each place says how many there are."""
    counted = [*rows]
    for place, number in Counter(places).items():
        first = places.index(place)
        counted[first] = (*rows[first][:-1], number)
    return counted


def _write_tables(session: Session, rows: Sequence[Row]) -> None:
    [(newest,)] = session.ask(ADD_SQL["newest"])
    deliveries: list[Row] = []
    records: list[Row] = []
    payloads: list[Row] = []
    recipients: list[Row] = []
    keys: list[Row] = []
    for seq, row in enumerate(rows, (newest or 0) + 1):
        record, payload, fingerprint, recipient, _ = row[VARYING:]
        deliveries.append((*row[:VARYING], seq))
        records.append((seq, record))
        payloads.append((seq, payload))
        if recipient != ABSENT:
            recipients.append((recipient, seq))
        if fingerprint != ABSENT:
            keys.append((row[_SOURCE], row[_KEY], row[0], fingerprint, ABSENT))
    session.write(INSERT_PLAIN, deliveries)
    session.write(INSERT_RECORDS, records)
    session.write(INSERT_PAYLOADS, payloads)
    session.write(INSERT_RECIPIENTS, recipients)
    session.write(INSERT_KEYS, keys)
