"""Puts inside a transaction: what they need is read and locked, judged, and written.

Generators that yield statements and are sent their rows, for our own connections and for those of
callers.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from homing.domain.delivery import Key
from homing.domain.writes import Count, Write
from homing.ports import Put
from homing.stores.judging import Judged
from homing.stores.sql.columns import Row
from homing.stores.sql.knowledge import Knowledge
from homing.stores.sql.layouts import LayoutTables
from homing.stores.sql.ledger import CARRIES_ATTEMPT, Implied
from homing.stores.sql.planning import Plan, plan_of
from homing.stores.sql.postgres import layout_rows
from homing.stores.sql.postgres.arrays import Array
from homing.stores.sql.postgres.faults import Collision
from homing.stores.sql.postgres.rows import PARTS, arrays
from homing.stores.sql.postgres.statement import Steps, bind
from homing.stores.sql.postgres.writing import plain_results, statements
from homing.stores.sql.statements import load

_SQL = load(__package__, "save.sql", PARTS)
# A row moves to the other table when its delivery ends or is opened again, each time once.
_MOST_LOOKS = 8


def put_exactly(
    puts: Sequence[Put], knowledge: Knowledge, layouts: LayoutTables | None = None
) -> Steps[Judged]:
    """Everything is written when the generator ends."""
    judged = knowledge.judge(puts)
    while not judged.is_complete:
        yield from _look_up(judged, knowledge)
        judged = knowledge.judge(puts)
    plan = plan_of(judged, knowledge.implied)
    yield from _remove(plan)
    rows: list[Row] = []
    for statement in statements(plan, knowledge.replaced(judged), layouts=layouts):
        rows = yield statement
    saved = {row[0] for row in rows} if plan.changed else ()
    if any(one.after.id not in saved for one in plan.changed):
        raise Collision("a row that was locked has changed")
    yield from _put_contents(plan)
    yield from _count(_counts(plan))
    if layouts:
        yield from layout_rows.remove(layouts, plan.removed)
        changed = layouts.shown([one.after for one in plan.changed])
        yield from layout_rows.refresh(layouts, [one.id for one in changed])
    return judged


def _run(name: str, /, **values: Any) -> Steps[list[Row]]:
    return (yield bind(_SQL[name], values))


def _look_up(judged: Judged, knowledge: Knowledge) -> Steps[None]:
    if judged.missing_records:
        yield from _read(judged.missing_records, knowledge)
    if not judged.missing_ids and not judged.missing_keys:
        return
    names = sorted(judged.missing_keys)
    found = yield from _run(
        "taken",
        ids=Array("text", sorted(judged.missing_ids)),
        sources=Array("text", [source for source, _ in names]),
        keys=Array("text", [key for _, key in names]),
    )
    for source, name, delivery_id, fingerprint, expires_at_ms in found:
        if source is None:
            knowledge.note_taken(delivery_id)
        else:
            knowledge.note_key(Key(source, name, delivery_id, fingerprint, expires_at_ms))


def _read(ids: Iterable[str], knowledge: Knowledge) -> Steps[None]:
    """A row that moves to the other table meanwhile is found there by the next look."""
    left = set(ids)
    for _ in range(_MOST_LOOKS):
        for table in ("stored_open", "stored_ended"):
            rows = yield from _run(table, ids=Array("text", sorted(left)))
            for carries, done_by, done_since_ms, record, *fresh in rows:
                implied = Implied(done_by, done_since_ms) if carries & CARRIES_ATTEMPT else None
                left.discard(knowledge.note_record(record, fresh, implied).id)
            if not left:
                return
        left = yield from _still_there(left)
        if not left:
            return
    raise Collision(f"{min(left)} is being moved")


def _still_there(ids: Iterable[str]) -> Steps[set[str]]:
    rows = yield from _run("there", ids=Array("text", sorted(ids)))
    return {delivery_id for (delivery_id,) in rows}


def _remove(plan: Plan) -> Steps[None]:
    if plan.recipients_gone:
        gone = arrays("recipient", ("address", "id"), plan.recipients_gone)
        yield from _run("drop_recipients", **gone)
    if plan.removed:
        ids = Array("text", [delivery.id for delivery in plan.removed])
        for part in ("open", "ended", "records", "results", "attempts"):
            yield from _run(f"remove_{part}", ids=ids)


def _put_contents(plan: Plan) -> Steps[None]:
    written = plain_results(plan) if plan.contents else {}
    for delivery_id, write in plan.contents:
        if delivery_id not in written:
            yield from _put_content(delivery_id, write)


def _put_content(delivery_id: str, write: Write) -> Steps[None]:
    if write.drop_results_but is not None:
        yield from _run("drop_results", id=delivery_id, kept=write.drop_results_but)
    if write.payload is not None:
        if write.keep_payload_as is not None:
            yield from _run("keep_payload", id=delivery_id, name=write.keep_payload_as)
        yield from _run("put_payload", id=delivery_id, payload=write.payload or None)
    if write.results:
        rows = [(delivery_id, name, data) for name, data in write.results.items()]
        yield from _run("put_results", **arrays("result", ("id", "name", "data"), rows))


def _counts(plan: Plan) -> list[Count]:
    """One for each parent; a row of which nothing else changes is told by how much it changes."""
    counts: dict[str, Count] = {}
    for count in plan.judged.counts:
        before = counts.get(count.parent_id)
        delta = count.delta if before is None else count.delta + before.delta
        counts[count.parent_id] = Count(count.parent_id, delta, count.at_ms)
    for after in plan.counted:
        before_it = plan.judged.effects[after.id].before
        if before_it is not None:
            delta = after.open_children - before_it.open_children
            counts[after.id] = Count(after.id, delta, after.due_at_ms or 0)
    return [counts[parent_id] for parent_id in sorted(counts)]


def _count(counts: Sequence[Count]) -> Steps[None]:
    """As in `_read`, a parent may be moved meanwhile."""
    left = {count.parent_id: count for count in counts}
    for _ in range(_MOST_LOOKS):
        for table in ("count_open", "count_ended"):
            if not left:
                return
            rows = [(count.parent_id, count.delta, count.at_ms) for count in left.values()]
            told = yield from _run(table, **arrays("count", ("id", "delta", "at_ms"), rows))
            for (parent_id,) in told:
                del left[parent_id]
        if left:
            there = yield from _still_there(left)
            left = {parent_id: count for parent_id, count in left.items() if parent_id in there}
    if left:
        raise Collision(f"the parent {min(left)} is being moved")
