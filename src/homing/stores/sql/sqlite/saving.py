"""Save over the version that was read.

A save assumes that no claim was lost and writes many rows at a time; the number of changed rows
proves it. If it differs, everything is rolled back and repeated, this time reading first
(`Session.exact`). A delivery whose row is not known is always read first. A write that adds
children, changes the content or removes the record is made alone, between groups of plain ones, so
that the order is kept.
"""

from __future__ import annotations

from collections.abc import Sequence

from homing.domain.writes import Write
from homing.stores.codec import encode
from homing.stores.sql.columns import FRESH, Row, delivery_of
from homing.stores.sql.ledger import implied_attempt
from homing.stores.sql.sqlite.adding import (
    PUT_PAYLOADS,
    PUT_RECORDS,
    PUT_RESULTS,
    Adding,
    note_recipients,
)
from homing.stores.sql.sqlite.changes import ChangeEntry, SaveRequest, addresses
from homing.stores.sql.sqlite.purging import forget_recipients, remove
from homing.stores.sql.sqlite.rows import (
    CARRIES_ATTEMPT,
    PARTS,
    SET_FRESH,
    SET_IN_HAND,
    attempt_row,
    bound,
)
from homing.stores.sql.sqlite.session import Session
from homing.stores.sql.statements import Bulk, load

_SQL = load(__package__, "save.sql", PARTS)
_STORED = Bulk(_SQL["stored"], widest=256)
_UPDATE_DELIVERIES = Bulk(_SQL["update_deliveries"])
_PUT_ATTEMPTS = Bulk(_SQL["put_attempts"])
_PUT_TERMS = Bulk(_SQL["put_terms"])
_VERSION = FRESH.index("version")


def save_all(session: Session, requests: Sequence[SaveRequest]) -> list[list[bool]]:
    """Each change in turn, as if it were alone."""
    run: dict[str, ChangeEntry] = {}
    for request in requests:
        for entry in request.entries:
            delivery_id = entry.write.delivery.id
            is_plain = entry.write.is_plain
            if not is_plain or delivery_id in run:
                _save_run(session, list(run.values()))
                run = {}
            if is_plain:
                run[delivery_id] = entry
            else:
                _save_alone(session, entry)
    _save_run(session, list(run.values()))
    for request in requests:
        session.note(request.facts)
    return [[entry.kept for entry in request.entries] for request in requests]


def _save_run(session: Session, run: list[ChangeEntry]) -> None:
    _judge(session, [entry for entry in run if session.exact or entry.seq is None])
    run = [entry for entry in run if entry.kept]
    _write_columns(session, run)
    _write_records(session, run)
    session.write(_PUT_ATTEMPTS, [row for entry in run for row in entry.attempts])
    carrying = [entry for entry in run if entry.write.results]
    session.write(PUT_RESULTS, [row for entry in carrying for row in _results(entry)])
    for entry in run:
        if entry.before is not None:
            session.counts.move(entry.before, entry.write.delivery)
    # After the rows: a parent among them keeps its count, which is changed here.
    _conclude(session, [entry.write for entry in run])


def _judge(session: Session, run: list[ChangeEntry]) -> None:
    """Read what is stored: whether the claim was lost, and where the row is."""
    for entry in run:
        entry.kept = False
    asked = [(nth, entry.write.delivery.id) for nth, entry in enumerate(run)]
    for nth, seq, carries, done_by, done_since_ms, record, *fresh in session.ask_about(
        _STORED, asked
    ):
        entry = run[nth]
        write = entry.write
        if fresh[_VERSION] != write.over or entry.kept:
            continue
        stored = delivery_of(record, fresh)
        entry.kept, entry.seq, entry.before = True, seq, stored
        if carries & CARRIES_ATTEMPT and not write.removes:
            implied = implied_attempt(stored, done_by, done_since_ms)
            session.write(_PUT_ATTEMPTS, [attempt_row(stored.route, implied)])
        if write.removes:
            forget_recipients(session, seq, stored)
        elif addresses(stored) != addresses(write.delivery):
            forget_recipients(session, seq, stored)
            note_recipients(session, seq, write.delivery)


def _write_columns(session: Session, run: list[ChangeEntry]) -> None:
    """Deliveries that change alike are written by one statement."""
    alike: dict[Row, list[int | None]] = {}
    rows: list[Row] = []
    for entry in run:
        if entry.fresh is None:
            too = (entry.write.due_at_zero_ms, entry.carries, *entry.done, entry.seq)
            rows.append((*entry.row, *[bound(value) for value in too]))
            continue
        marks = (entry.in_hand and not session.exact, entry.carries, entry.record is None)
        alike.setdefault((entry.fresh, marks, entry.done), []).append(entry.seq)
    for (fresh, marks, done), places in alike.items():
        in_hand, *flags = marks
        values = dict(zip(FRESH, fresh, strict=False))
        where = (encode(places).decode(), values["version"])
        if in_hand:
            new = [values[name] for name in SET_IN_HAND]
            changed = session.run(
                _SQL["update_in_hand"], (*new, *flags, *where, values["due_at_ms"])
            )
        else:
            new = [values[name] for name in SET_FRESH]
            changed = session.run(_SQL["update_fresh"], (*new, *flags, *done, *where))
        session.prove(changed, len(places))
    session.prove(session.write(_UPDATE_DELIVERIES, rows), len(rows))


def _write_records(session: Session, run: list[ChangeEntry]) -> None:
    session.write(
        PUT_RECORDS, [(entry.seq, entry.record) for entry in run if entry.record is not None]
    )


def _results(entry: ChangeEntry) -> list[Row]:
    return [(entry.seq, name, bytearray(data)) for name, data in entry.write.results.items()]


def _conclude(session: Session, writes: Sequence[Write]) -> None:
    """Their effect on others: parents, keys, waiting workers, facts."""
    terms: list[Row] = []
    for write in writes:
        if write.count is not None:
            count = write.count
            session.run(_SQL["tell_parent"], (count.delta, count.at_ms, count.parent_id))
        terms += [
            (bound(key.expires_at_ms), key.source, key.key, key.delivery_id) for key in write.terms
        ]
        if write.wakes:
            session.news = True
        if write.facts:
            session.note(write.facts)
    session.write(_PUT_TERMS, terms)


def _save_alone(session: Session, entry: ChangeEntry) -> None:
    _judge(session, [entry])
    if not entry.kept or entry.before is None:
        return
    write, seq = entry.write, entry.seq
    if entry.children:
        adding = Adding(session)
        adding.look_up(entry.children)
        opened = adding.add_children(entry.children)
        adding.write()
        session.run(_SQL["count_children"], (opened, seq))
    if write.removes:
        remove(session, seq, entry.before)
        session.run(_SQL["forget_attempts"], (write.delivery.id,))
        _conclude(session, [write])
        return
    session.counts.move(entry.before, write.delivery)
    if write.drop_results_but is not None:
        session.run(_SQL["drop_results"], (seq, write.drop_results_but))
    if write.payload is not None:
        if write.keep_payload_as is not None:
            session.run(_SQL["keep_payload"], (seq, write.keep_payload_as))
        session.write(PUT_PAYLOADS, [(seq, bytearray(write.payload))])
    session.write(PUT_RESULTS, _results(entry))
    _write_columns(session, [entry])
    _write_records(session, [entry])
    session.write(_PUT_ATTEMPTS, entry.attempts)
    _conclude(session, [write])
