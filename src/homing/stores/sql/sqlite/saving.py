"""Save over the version that was read: ask which claims were lost, write the others in wide rows.

Most changes are plain: a row, perhaps an ended attempt, perhaps results. They are written many
at a time. The few that add children, change the payload or forget the record go one by one,
between the runs of plain ones, so that the order in which they were asked for is kept.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from homing.domain.delivery import Change, Delivery, Fact, Key
from homing.domain.writes import write_of_change
from homing.stores.codec import decode_delivery
from homing.stores.sql.sqlite.adding import Adding, Entry, entry_of, note_recipients
from homing.stores.sql.sqlite.purging import forget_recipients, remove
from homing.stores.sql.sqlite.rows import (
    CARRIES_PAYLOAD,
    CARRIES_RESULTS,
    ENVELOPE,
    Row,
    attempt_row,
    delivery_row,
    number,
)
from homing.stores.sql.sqlite.session import Session
from homing.stores.sql.statements import Bulk, load

_SQL = load(__package__, "save.sql")
_CHANGED_SINCE_READ = Bulk(_SQL["changed_since_read"], widest=256)
_PUT_DELIVERIES = Bulk(_SQL["put_deliveries"])
_MARK = Bulk(_SQL["mark"])
_PUT_ATTEMPTS = Bulk(_SQL["put_attempts"])
_PUT_RESULTS = Bulk(_SQL["put_results"])

KEPT_PAYLOAD = "payload."
"""Replaced payloads stay readable among the results as `payload.<number>`."""


class Saved(Struct, gc=False):
    """A change with its rows, encoded before it comes to the writer, and its answer."""

    change: Change
    row: Row
    attempts: Sequence[Row]
    may_wake: bool
    children: Sequence[Entry] = ()
    terms: Sequence[Key] = ()
    plain: bool = True
    kept: bool = False


class SaveRequest(Struct, gc=False):
    entries: list[Saved]
    facts: Sequence[Fact]


def saved_of(change: Change) -> Saved:
    delivery, ended = change.delivery, change.ended
    carries = CARRIES_RESULTS if change.results else 0
    if change.marks_only:
        row = (delivery.id, delivery.version, delivery.updated_at_ms, carries)
        return Saved(change, row, (), may_wake=False)
    if change.payload is not None:
        carries = CARRIES_PAYLOAD | CARRIES_RESULTS
    terms = write_of_change(change).terms
    saved = Saved(
        change,
        delivery_row(delivery, carries),
        [attempt_row(delivery, attempt) for attempt in ended] if ended else (),
        terms=terms,
        may_wake=bool(terms)
        or change.child_delta != 0
        or bool(change.facts)
        or (delivery.state != "in_flight" and not delivery.is_terminal),
    )
    if change.children or change.drop_results or change.forget or change.payload is not None:
        saved.plain = False
        saved.children = [entry_of(child) for child in change.children]
    return saved


def save_all(session: Session, requests: Sequence[SaveRequest]) -> list[list[bool]]:
    """Each change in turn, as if it were alone."""
    run: dict[str, Saved] = {}
    for request in requests:
        for saved in request.entries:
            delivery_id = saved.change.delivery.id
            if not saved.plain or delivery_id in run:
                _save_plain(session, list(run.values()))
                run = {}
            if saved.plain:
                run[delivery_id] = saved
            else:
                _save_special(session, saved)
    _save_plain(session, list(run.values()))
    for request in requests:
        session.note(request.facts)
    return [[saved.kept for saved in request.entries] for request in requests]


def _find_lost(session: Session, run: list[Saved]) -> None:
    """Mark what may be written."""
    asked: list[Row] = []
    for nth, saved in enumerate(run):
        delivery = saved.change.delivery
        saved.kept = True
        leased_until_ms = number(delivery.due_at_ms if delivery.state == "in_flight" else None)
        envelope = saved.row[ENVELOPE]
        asked.append((nth, delivery.id, delivery.version, leased_until_ms, envelope))
    for nth, lost, cut_short, other_envelope in session.ask_about(_CHANGED_SINCE_READ, asked):
        if lost:
            run[nth].kept = False
            continue
        if cut_short:
            session.news = True
        if other_envelope:
            _readdress(session, run[nth].change.delivery)


def _readdress(session: Session, delivery: Delivery) -> None:
    [(seq, _, record)] = session.ask(_SQL["stored"], (delivery.id,))
    forget_recipients(session, seq, decode_delivery(record))
    note_recipients(session, seq, delivery)


def _save_plain(session: Session, run: list[Saved]) -> None:
    _mark(session, [saved for saved in run if saved.change.marks_only])
    whole = [saved for saved in run if not saved.change.marks_only]
    _find_lost(session, whole)
    session.write(_PUT_DELIVERIES, [saved.row for saved in whole if saved.kept])
    run = [saved for saved in run if saved.kept]
    session.write(_PUT_ATTEMPTS, [row for saved in run for row in saved.attempts])
    session.write(
        _PUT_RESULTS,
        [
            (saved.change.delivery.id, name, bytearray(data))
            for saved in run
            if saved.change.results
            for name, data in saved.change.results.items()
        ],
    )
    # After the rows: a parent among them keeps its count, and hears of its children here.
    for saved in run:
        if saved.may_wake:
            _conclude(session, saved)


def _mark(session: Session, marks: list[Saved]) -> None:
    kept = {row[0] for row in session.write_asking(_MARK, [saved.row for saved in marks])}
    for saved in marks:
        saved.kept = saved.change.delivery.id in kept


def _conclude(session: Session, saved: Saved) -> None:
    """What it means for others: its parent, whoever waits for work, whoever reads facts."""
    change = saved.change
    delivery = change.delivery
    if change.child_delta and delivery.parent_id is not None:
        told = (change.child_delta, delivery.updated_at_ms, delivery.parent_id)
        session.run(_SQL["tell_parent"], told)
        session.news = True
    if delivery.state != "in_flight" and not delivery.is_terminal:
        session.news = True
    for key in saved.terms:
        term = (number(key.expires_at_ms), key.source, key.key, key.delivery_id)
        session.run(_SQL["put_term"], term)
    session.note(change.facts)


def _save_special(session: Session, saved: Saved) -> None:
    change = saved.change
    _find_lost(session, [saved])
    if not saved.kept:
        return
    delivery = change.delivery
    [(seq, payload_no, record)] = session.ask(_SQL["stored"], (delivery.id,))
    if saved.children:
        adding = Adding(session, saved.children)
        opened = adding.add_children(saved.children)
        adding.write()
        session.run(_SQL["count_children"], (opened, seq))
    if change.forget:
        remove(session, [(seq, decode_delivery(record))])
        session.run(_SQL["forget_attempts"], (delivery.id,))
        _conclude(session, saved)
        return
    if change.drop_results:
        session.run(_SQL["drop_results"], (seq,))
    if change.payload is not None:
        session.run(_SQL["keep_payload"], (seq, f"{KEPT_PAYLOAD}{payload_no}"))
        session.run(_SQL["put_payload"], (seq, change.payload))
    _write_alone(session, saved)


def _write_alone(session: Session, saved: Saved) -> None:
    change = saved.change
    session.write(_PUT_DELIVERIES, [saved.row])
    session.write(_PUT_ATTEMPTS, saved.attempts)
    results = [(change.delivery.id, name, bytearray(data)) for name, data in change.results.items()]
    session.write(_PUT_RESULTS, results)
    _conclude(session, saved)
