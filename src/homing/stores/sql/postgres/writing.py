"""A plan as statements: one, or several for a large batch. Nothing here talks to the server.

A statement consists of parts, one for each table that it writes (queries/write.sql). Rows of new
deliveries are put, and those that a process holds are changed, without a look at what is stored.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

from homing.domain.delivery import Key
from homing.domain.writes import Write
from homing.stores.judging import Effect
from homing.stores.sql.blocks import Block, block, delivery_columns
from homing.stores.sql.columns import COLUMNS, FRESH
from homing.stores.sql.planning import Changed, Plan, fact_rows, key_block, new_block
from homing.stores.sql.postgres.rows import (
    NAMES,
    PARTS,
    has_ended,
    has_shared,
    names_of,
    parameters_of,
    rows_block,
    source,
)
from homing.stores.sql.postgres.statement import Statement, bind
from homing.stores.sql.statements import load

# While the server writes so many new rows, the next are prepared.
PART = 512

_SQL = load(__package__, "write.sql", PARTS)
_COMMA = ",\n"
# The table in which a changed row is, and the one in which it will be.
_MOVES = frozenset({"open_open", "open_ended", "ended_open", "ended_ended"})
_FIXED = [column.name for column in COLUMNS if column.fixed]


def statements(
    plan: Plan, replaced: Sequence[Key] = (), *, is_held: bool = False
) -> Iterator[Statement]:
    """They write the plan but for removals, content that is put over other content, and counts.

    `replaced` are keys that are stored under names that the plan puts. With `is_held` the last
    statement returns the ids of the changed rows that were still as they were read; nothing that
    belongs to another one is written.
    """
    judged = plan.judged
    keys = list(judged.keys.values())
    number = max(len(plan.new), len(keys), len(plan.results), len(plan.recipients))
    blocks = [key_block("replaced_key", replaced)] if replaced else []
    for start in range(0, number, PART):
        blocks += _new_blocks(plan, keys, slice(start, start + PART))
        if start + PART < number:
            yield _statement(blocks, "no_answer")
            blocks = []
    blocks += _other_blocks(plan)
    if not blocks:
        return
    answer = "notify" if judged.wakes else "no_answer"
    if plan.changed:
        answer = "answer_and_notify" if judged.wakes else "answer"
    yield _statement(blocks, answer, is_held=is_held)


def plain_results(plan: Plan) -> dict[str, list[Write]]:
    """The writes, by id, that put results over others of the same name and do nothing else to the
    content."""
    found: dict[str, list[Write]] = {}
    for delivery_id, write in plan.contents:
        found.setdefault(delivery_id, []).append(write)
    is_changed = {one.after.id for one in plan.changed}
    return {
        delivery_id: writes
        for delivery_id, writes in found.items()
        if delivery_id in is_changed and all(write.is_plain for write in writes)
    }


def _new_blocks(plan: Plan, keys: Sequence[Key], part: slice) -> Iterator[Block]:
    if keys[part]:
        yield key_block("key", keys[part])
    new = plan.new[part]
    if new:
        payloads = [payload or None for payload in plan.payloads[part]]
        columns: dict[str, Sequence[Any]] = {
            "id": [one.writes[0].delivery.id for one in new],
            "record": plan.records[part],
            "payload": payloads,
        }
        yield block("new_record", columns)
        sizes = [_new_size(one) or 0 for one in new]
        ended = [one.after is not None and has_ended(one.after.state) for one in new]
        for table, is_there in (("new_open", False), ("new_ended", True)):
            there = [one for one, has in zip(new, ended, strict=True) if has is is_there]
            if there:
                rows = new_block(table, there)
                rows.varying["payload_bytes"] = [
                    size for size, has in zip(sizes, ended, strict=True) if has is is_there
                ]
                yield rows
    if plan.results[part]:
        yield rows_block("new_result", ("id", "name", "data"), plan.results[part])
    if plan.recipients[part]:
        yield rows_block("recipient", ("address", "id"), plan.recipients[part])


def _other_blocks(plan: Plan) -> Iterator[Block]:
    """What changes, and what goes with it."""
    judged = plan.judged
    if plan.changed:
        yield from _changed_blocks(plan.changed)
    records = [(one.after.id, one.record) for one in plan.changed if one.record is not None]
    attempts = {row[:2]: row for row in plan.attempts}
    for one in plan.changed:
        attempts.update({row[:2]: row for row in one.attempts})
    results = {
        (delivery_id, name): (delivery_id, name, data)
        for delivery_id, writes in (plain_results(plan) if plan.contents else {}).items()
        for write in writes
        for name, data in write.results.items()
    }
    terms = {
        (key.source, key.key): (key.delivery_id, key.source, key.key, key.expires_at_ms)
        for key in judged.terms
    }
    owners = {
        (fact.kind, fact.key): one.after.id
        for one in plan.changed
        for write in one.effect.writes
        for fact in write.facts
    }
    facts = [(owners.get(row[:2]), *row) for row in fact_rows([*judged.facts.values()])]
    dropped = [name for name, fact in judged.facts.items() if fact.value is None]
    for table, names, rows in (
        ("record", ("id", "record"), records),
        ("attempt", ("id", "number", "route", "ended_at_ms", "record"), [*attempts.values()]),
        ("result", ("id", "name", "data"), [*results.values()]),
        ("term", ("id", "source", "key", "expires_at_ms"), [*terms.values()]),
        ("fact", ("id", "kind", "key", "at_ms", "value"), facts),
        ("dropped_fact", ("kind", "key"), dropped),
    ):
        if rows:
            yield rows_block(table, names, rows)


def _changed_blocks(changed: Sequence[Changed]) -> Iterator[Block]:
    """In the order of ids, so that two processes that save the same rows wait in turn."""
    by_table: dict[str, list[Changed]] = {}
    for one in sorted(changed, key=lambda one: one.after.id):
        before = "ended" if has_ended(one.before.state) else "open"
        after = "ended" if has_ended(one.after.state) else "open"
        by_table.setdefault(f"{before}_{after}", []).append(one)
    is_fresh = all(one.fresh is not None for one in changed)
    for table, there in sorted(by_table.items()):
        yield block(table, _changed_columns(there, is_fresh=is_fresh))


def _changed_columns(changed: Sequence[Changed], *, is_fresh: bool) -> dict[str, Sequence[Any]]:
    columns: dict[str, Sequence[Any]] = {}
    if is_fresh:
        fresh = [one.fresh or () for one in changed]
        columns |= zip(FRESH[:-1], zip(*fresh, strict=True), strict=True)
    else:
        columns |= delivery_columns([one.after for one in changed])
        for name in _FIXED:
            del columns[name]
    del columns["version"]
    if any(one.effect.is_exact for one in changed):
        columns["open_children"] = [one.after.open_children for one in changed]
        columns["payload_bytes"] = [_new_size(one.effect) for one in changed]
    return columns | {
        "id": [one.after.id for one in changed],
        "over": [one.before.version for one in changed],
        "raised": [one.effect.version - one.before.version for one in changed],
        "carries": [one.carries for one in changed],
        "done_by": [one.done.done_by for one in changed],
        "done_since_ms": [one.done.done_since_ms for one in changed],
        "is_stale": [1 if one.record is None else 0 for one in changed],
    }


def _new_size(effect: Effect) -> int | None:
    """Of the payload; None if it stays."""
    for write in reversed(effect.writes):
        if write.payload is not None:
            return len(write.payload)
    return None


def _statement(blocks: Sequence[Block], answer: str, *, is_held: bool = False) -> Statement:
    parts = tuple([(one.table, names_of(one), has_shared(one)) for one in blocks])
    values: dict[str, Any] = {}
    for one in blocks:
        values |= parameters_of(one)
    return bind(_template(parts, answer, is_held=is_held), values)


@cache
def _template(
    parts: tuple[tuple[str, tuple[str, ...], bool], ...], answer: str, *, is_held: bool
) -> str:
    steps: list[str] = []
    saved: list[str] = []
    others: list[str] = []
    for table, names, are_shared in parts:
        if table in _MOVES:
            step = _move(table, names)
            saved.append(f"select s.id from changed_{table} as s")  # noqa: S608 - constants
        else:
            step = _SQL[table]
        step = step.replace(":rows:", source(table, names, are_shared=are_shared))
        (steps if table in _MOVES else others).append(step.replace(":names:", ", ".join(names)))
    if saved:
        steps.append(f"saved as materialized ({' union all '.join(saved)})")
    text = f"with {_COMMA.join([*steps, *others])}\n{_SQL[answer]}"
    has_replaced = any(table == "replaced_key" for table, _, _ in parts)
    return text.replace(":is_saved:", _SQL["is_saved"] if is_held else "true").replace(
        ":after_replaced:", _SQL["after_replaced"] if has_replaced else ""
    )


def _move(table: str, names: Sequence[str]) -> str:
    before, _, after = table.partition("_")
    values = {name: _value(name, names) for name in NAMES}
    marks = {
        ":table:": table,
        ":from:": before,
        ":to:": after,
        ":values:": ", ".join(f"{value} as {name}" for name, value in values.items()),
        ":set:": ", ".join(
            f"{name} = {value}" for name, value in values.items() if value != f"o.{name}"
        ),
    }
    step = _SQL["updated" if before == after else "moved"]
    for mark, given in marks.items():
        step = step.replace(mark, given)
    return step


def _value(name: str, brought: Sequence[str]) -> str:
    if name == "version":
        return "o.version + w.raised"
    if name == "carries":
        return "(o.carries & 3) | w.carries"
    if name == "payload_bytes" and name in brought:
        return "coalesce(w.payload_bytes, o.payload_bytes)"
    return f"w.{name}" if name in brought and name != "id" else f"o.{name}"
