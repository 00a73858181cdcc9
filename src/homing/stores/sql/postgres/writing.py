"""A plan as statements: one, or several for a large batch. Nothing here talks to the server.

A statement consists of parts, one for each table that it writes (queries/write.sql). Rows of new
deliveries are put, and those that a process holds are changed, without a look at what is stored.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any, TypeAlias

from homing.domain.delivery import Key
from homing.domain.writes import Write
from homing.stores.judging import Effect
from homing.stores.sql.blocks import delivery_columns
from homing.stores.sql.columns import COLUMNS, FRESH, Row
from homing.stores.sql.layouts import LayoutTables
from homing.stores.sql.layouts import Rows as LayoutRows
from homing.stores.sql.planning import Changed, Plan, fact_rows, key_columns, new_columns
from homing.stores.sql.postgres import layout_rows
from homing.stores.sql.postgres.layout_rows import LayoutPart, Part
from homing.stores.sql.postgres.rows import NAMES, PARTS, Source, has_ended, take
from homing.stores.sql.postgres.statement import Statement, bind
from homing.stores.sql.statements import load

Rows: TypeAlias = tuple[str, Mapping[str, Sequence[Any]]]
"""The part of the statement that writes them, and their columns."""

# While the server writes so many new rows, the next are prepared.
PART = 512

_SQL = load(__package__, "write.sql", PARTS)
_COMMA = ",\n"
# The table in which a changed row is, and the one in which it will be.
_MOVES = frozenset({"open_open", "open_ended", "ended_open", "ended_ended"})
_FIXED = [column.name for column in COLUMNS if column.fixed]


def statements(
    plan: Plan,
    replaced: Sequence[Key] = (),
    *,
    is_held: bool = False,
    layouts: LayoutTables | None = None,
) -> Iterator[Statement]:
    """They write the plan but for removals, content that is put over other content, and counts.

    `replaced` are keys that are stored under names that the plan puts. With `is_held` the last
    statement returns the ids of the changed rows that were still as they were read; nothing that
    belongs to another one is written. `layouts` are tables in which new deliveries, and with
    `is_held` changed ones, have rows.
    """
    judged = plan.judged
    keys = list(judged.keys.values())
    number = max(len(plan.new), len(keys), len(plan.results), len(plan.recipients))
    tables: list[Rows] = [("replaced_key", key_columns(replaced))] if replaced else []
    shown: list[tuple[Part, LayoutRows]] = []
    for start in range(0, number, PART):
        part = slice(start, start + PART)
        tables += _new_rows(plan, keys, part)
        if layouts:
            shown += [("insert", rows) for rows in layouts.of_new(plan.new[part])]
        if start + PART < number:
            yield _statement(tables, "no_answer", shown)
            tables, shown = [], []
    tables += _other_rows(plan)
    if not tables:
        return
    answer = "notify" if judged.wakes else "no_answer"
    if plan.changed:
        answer = "answer_and_notify" if judged.wakes else "answer"
    if layouts and is_held:
        shown += [("update", rows) for rows in layouts.of_held(plan)]
    yield _statement(tables, answer, shown, is_held=is_held)


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


def _new_rows(plan: Plan, keys: Sequence[Key], part: slice) -> Iterator[Rows]:
    if keys[part]:
        yield "key", key_columns(keys[part])
    new = plan.new[part]
    if new:
        yield (
            "new_record",
            {
                "id": [one.writes[0].delivery.id for one in new],
                "record": plan.records[part],
                "payload": [payload or None for payload in plan.payloads[part]],
            },
        )
        for table, is_ended in (("new_open", False), ("new_ended", True)):
            there = [one for one in new if one.after and has_ended(one.after.state) is is_ended]
            if there:
                yield table, _columns_of_new(there)
    if plan.results[part]:
        yield "new_result", _columns(("id", "name", "data"), plan.results[part])
    if plan.recipients[part]:
        yield "recipient", _columns(("address", "id"), plan.recipients[part])


def _columns_of_new(new: Sequence[Effect]) -> dict[str, Sequence[Any]]:
    columns = new_columns(new)
    columns["payload_bytes"] = [_new_size(one) or 0 for one in new]
    columns["is_stale"] = [0] * len(new)
    return columns


def _columns(names: Sequence[str], rows: Sequence[Row]) -> dict[str, Sequence[Any]]:
    return dict(zip(names, zip(*rows, strict=True), strict=True))


def _other_rows(plan: Plan) -> Iterator[Rows]:
    """What changes, and what goes with it."""
    changed, judged = plan.changed, plan.judged
    if changed:
        yield from _changed_rows(changed)
    records = [(one.after.id, one.record) for one in changed if one.record is not None]
    attempts = {row[:2]: row for one in changed if one.attempts for row in one.attempts}
    attempts |= {row[:2]: row for row in plan.attempts}
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
    for table, names, rows in (
        ("record", ("id", "record"), records),
        ("attempt", ("id", "number", "route", "ended_at_ms", "record"), [*attempts.values()]),
        ("result", ("id", "name", "data"), [*results.values()]),
        ("term", ("id", "source", "key", "expires_at_ms"), [*terms.values()]),
        *(_facts(plan) if judged.facts else ()),
    ):
        if rows:
            yield table, _columns(names, rows)


def _facts(plan: Plan) -> Iterator[tuple[str, tuple[str, ...], list[Row]]]:
    facts = plan.judged.facts
    owners = {
        (fact.kind, fact.key): one.after.id
        for one in plan.changed
        for write in one.effect.writes
        for fact in write.facts
    }
    put = [(owners.get(row[:2]), *row) for row in fact_rows([*facts.values()])]
    yield "fact", ("id", "kind", "key", "at_ms", "value"), put
    dropped = [name for name, fact in facts.items() if fact.value is None]
    yield "dropped_fact", ("kind", "key"), dropped


def _changed_rows(changed: Sequence[Changed]) -> Iterator[Rows]:
    """In the order of ids, so that two processes that save the same rows wait in turn."""
    by_table: dict[str, list[Changed]] = {}
    for one in sorted(changed, key=lambda one: one.after.id):
        before = "ended" if has_ended(one.before.state) else "open"
        after = "ended" if has_ended(one.after.state) else "open"
        by_table.setdefault(f"{before}_{after}", []).append(one)
    is_fresh = all(one.fresh is not None for one in changed)
    for table, there in sorted(by_table.items()):
        yield table, _changed_columns(there, is_fresh=is_fresh)


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


def _statement(
    tables: Sequence[Rows],
    answer: str,
    shown: Sequence[tuple[Part, LayoutRows]] = (),
    *,
    is_held: bool = False,
) -> Statement:
    values: dict[str, Any] = {}
    sources = tuple([take(table, columns, values) for table, columns in tables])
    layouts = tuple(
        [layout_rows.take(part, nth, rows, values) for nth, (part, rows) in enumerate(shown)]
    )
    return bind(_template(sources, answer, layouts, is_held=is_held), values)


@cache
def _template(
    sources: tuple[Source, ...], answer: str, layouts: tuple[LayoutPart, ...], *, is_held: bool
) -> str:
    changes: list[str] = []
    saved: list[str] = []
    others: list[str] = []
    for source in sources:
        table = source.table
        step = _move(table, source.names) if table in _MOVES else _SQL[table]
        step = step.replace(":rows:", source.sql).replace(":names:", ", ".join(source.names))
        if table in _MOVES:
            changes.append(step)
            saved.append(f"select s.id from changed_{table} as s")  # noqa: S608 - constants
        else:
            others.append(step)
    if saved:
        changes.append(f"saved as materialized ({' union all '.join(saved)})")
    others += [each.sql.replace(":is_saved:", each.is_saved) for each in layouts]
    text = f"with {_COMMA.join([*changes, *others])}\n{_SQL[answer]}"
    has_replaced = any(source.table == "replaced_key" for source in sources)
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
