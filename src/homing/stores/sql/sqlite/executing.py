"""Executes a plan inside a transaction. Nothing is decided here: what was assumed is proved."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter

from msgspec import Struct

from homing.domain.delivery import Delivery
from homing.domain.writes import Write
from homing.stores.codec import encode
from homing.stores.judging import Judged
from homing.stores.sql.blocks import Block, block
from homing.stores.sql.columns import FRESH, Row
from homing.stores.sql.planning import Changed, Plan, fact_rows, key_columns, new_columns
from homing.stores.sql.sqlite.block_inserts import insert
from homing.stores.sql.sqlite.purging import remove
from homing.stores.sql.sqlite.rows import (
    LEASE,
    PARTS,
    SET_FRESH,
    SET_UNDER_LEASE,
    bound,
    delivery_row,
)
from homing.stores.sql.sqlite.session import Session, assuming_free
from homing.stores.sql.statements import Bulk, load

_ADD = load(__package__, "add.sql", PARTS)
_SAVE = load(__package__, "save.sql", PARTS)
_REMOVE_RECIPIENT = load(__package__, "purge.sql", PARTS)["remove_recipient"]
_PUT_RECORDS = Bulk(_ADD["put_records"])
_PUT_PAYLOADS = Bulk(_ADD["put_payloads"])
_PUT_RESULTS = Bulk(_ADD["put_results"])
_PUT_RECIPIENTS = Bulk(_ADD["put_recipients"])
_PUT_FACTS = Bulk(_ADD["put_facts"])
_UPDATE = Bulk(_SAVE["update_deliveries"])
_PUT_ATTEMPTS = Bulk(_SAVE["put_attempts"])
_PUT_TERMS = Bulk(_SAVE["put_terms"])
_lease: Callable[[Delivery], Row] = attrgetter(*LEASE)


class Steps(Struct):
    """A plan with its blocks. `rows` are the numbers of the rows that change, by id.

    `assumes_free`: that keys are new is proved by their index; else they were looked up, and those
    that are stored are replaced.
    """

    plan: Plan
    rows: dict[str, int]
    new: list[Block]
    keys: Block | None
    assumes_free: bool


def steps_of(plan: Plan, rows: Mapping[str, int], *, assumes_free: bool) -> Steps:
    """Pure: made where the batch was asked for, if nothing has to be read for it."""
    keys = list(plan.judged.keys.values())
    return Steps(
        plan,
        {one.after.id: rows[one.after.id] for one in plan.changed}
        | {one.id: rows[one.id] for one in plan.removed}
        | {one.id: rows[one.id] for one in plan.counted},
        _new_blocks(plan) if plan.new else [],
        block("homing_keys", key_columns(keys)) if keys else None,
        assumes_free,
    )


def _new_blocks(plan: Plan) -> list[Block]:
    number = len(plan.new)
    blocks = [
        block("homing_deliveries", new_columns(plan.new), is_stale=0),
        Block("homing_records", number, {}, {"record": plan.records}),
    ]
    if all(plan.payloads):
        # Binding bytes is slow (Python looks for an adapter); a bytearray is bound at once.
        payloads = [bytearray(payload or b"") for payload in plan.payloads]
        blocks.append(Block("homing_contents", number, {}, {"payload": payloads}))
    return blocks


def execute(session: Session, steps: Steps) -> None:
    """Afterwards `rows` has the new ones, too."""
    plan, rows = steps.plan, steps.rows
    judged = plan.judged
    for delivery in plan.removed:
        remove(session, rows[delivery.id], delivery)
        session.run(_SAVE["forget_attempts"], (delivery.id,))
    if plan.recipients_gone:
        session.run_each(_REMOVE_RECIPIENT, _numbered(plan.recipients_gone, rows))
    if plan.new:
        _insert(session, steps)
    if plan.changed:
        _update(session, plan.changed, rows)
    for one in plan.counted:
        session.run(_SAVE["put_counter"], (one.open_children, one.due_at_ms, rows[one.id]))
    for delivery_id, write in plan.contents:
        _put_content(session, rows[delivery_id], write)
    session.write(_PUT_RECIPIENTS, _numbered(plan.recipients, rows))
    session.write(_PUT_ATTEMPTS, plan.attempts)
    if steps.keys is not None:
        tail = "" if steps.assumes_free else _ADD["replace_keys"]
        with assuming_free:
            insert(session, steps.keys, tail=tail)
    _conclude(session, judged)
    session.counts.add_plan(plan)


def _insert(session: Session, steps: Steps) -> None:
    plan, rows = steps.plan, steps.rows
    [(newest,)] = session.ask(_ADD["newest"])
    base = newest or 0
    rows |= {delivery.id: row for row, delivery in enumerate(_deliveries(plan), base + 1)}
    first, *others = steps.new
    with assuming_free:
        insert(session, first, base)
    for other in others:
        insert(session, other, base)
    if len(others) == 1:
        payloads = [
            (base + nth, bytearray(payload))
            for nth, payload in enumerate(plan.payloads, 1)
            if payload
        ]
        session.write(_PUT_PAYLOADS, payloads)
    results = [(rows[one], name, bytearray(data)) for one, name, data in plan.results]
    session.write(_PUT_RESULTS, results)


def _deliveries(plan: Plan) -> list[Delivery]:
    return [effect.after for effect in plan.new if effect.after is not None]


def _numbered(recipients: Sequence[Row], rows: Mapping[str, int]) -> list[Row]:
    return [(address, rows[delivery_id]) for address, delivery_id in recipients]


def _update(session: Session, changed: Sequence[Changed], rows: Mapping[str, int]) -> None:
    """Deliveries that change alike are written by one statement."""
    alike: dict[Row, list[int]] = {}
    whole: list[Row] = []
    records: list[Row] = []
    attempts: list[Row] = []
    for one in changed:
        effect, before, after = one.effect, one.before, one.after
        row = rows[after.id]
        if one.fresh is None:
            counted = after.open_children if effect.is_exact else None
            too = (counted, one.carries, *one.done, before.version, effect.version, row)
            whole.append((*delivery_row(after), *[bound(value) for value in too]))
        else:
            keeps_lease = after.state == "in_flight" and _lease(before) == _lease(after)
            marks = (one.carries, one.record is None, effect.version, *one.done, before.version)
            alike.setdefault((one.fresh, keeps_lease, marks), []).append(row)
        if one.record is not None:
            records.append((row, one.record))
        attempts += one.attempts
    for (fresh, keeps_lease, marks), places in alike.items():
        _update_fresh(session, fresh, marks, places, keeps_lease=keeps_lease)
    session.prove(session.write(_UPDATE, whole), len(whole))
    session.write(_PUT_RECORDS, records)
    session.write(_PUT_ATTEMPTS, attempts)


def _update_fresh(
    session: Session, fresh: Row, marks: Row, rows: Sequence[int], *, keeps_lease: bool
) -> None:
    values = dict(zip(FRESH, fresh, strict=False))
    where = encode(rows).decode()
    carries, is_stale, version, done_by, done_since_ms, over = marks
    if keeps_lease:
        new = [values[name] for name in SET_UNDER_LEASE]
        given = (*new, carries, is_stale, version, where, over, values["due_at_ms"])
        changed = session.run(_SAVE["update_under_lease"], given)
    else:
        new = [values[name] for name in SET_FRESH]
        given = (*new, carries, is_stale, version, done_by, done_since_ms, where, over)
        changed = session.run(_SAVE["update_fresh"], given)
    session.prove(changed, len(rows))


def _put_content(session: Session, row: int, write: Write) -> None:
    if write.drop_results_but is not None:
        session.run(_SAVE["drop_results"], (row, write.drop_results_but))
    if write.payload is not None:
        if write.keep_payload_as is not None:
            session.run(_SAVE["keep_payload"], (row, write.keep_payload_as))
        session.write(_PUT_PAYLOADS, [(row, bytearray(write.payload))])
    results = [(row, name, bytearray(data)) for name, data in write.results.items()]
    session.write(_PUT_RESULTS, results)


def _conclude(session: Session, judged: Judged) -> None:
    """The effect on others: keys, parents, facts, waiting workers."""
    session.write(
        _PUT_TERMS,
        [(bound(key.expires_at_ms), key.source, key.key, key.delivery_id) for key in judged.terms],
    )
    for count in judged.counts:
        session.run(_SAVE["count_child"], (count.delta, count.at_ms, count.parent_id))
    facts = list(judged.facts.values())
    if facts:
        session.write(_PUT_FACTS, fact_rows(facts))
        gone = [(fact.kind, fact.key) for fact in facts if fact.value is None]
        session.run_each(_ADD["drop_fact"], gone)
    if judged.wakes:
        session.news = True
