"""A plan as statements: one, or several for a large batch. Nothing here talks to the server.

A statement consists of parts, one for each table that it writes (queries/write.sql). Rows of new
deliveries are put, and those that a process holds are changed, without a look at what is stored.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

from homing.domain.delivery import Key
from homing.stores.sql.planning import Plan, key_columns
from homing.stores.sql.postgres.plan_rows import Rows, new_rows, other_rows
from homing.stores.sql.postgres.rows import NAMES, PARTS, Source, take
from homing.stores.sql.postgres.statement import Statement, bind
from homing.stores.sql.statements import load

# While the server writes so many new rows, the next are prepared.
PART = 512

_SQL = load(__package__, "write.sql", PARTS)
_COMMA = ",\n"
# The table in which a changed row is, and the one in which it will be.
_MOVES = frozenset({"open_open", "open_ended", "ended_open", "ended_ended"})


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
    tables: list[Rows] = [("replaced_key", key_columns(replaced))] if replaced else []
    for start in range(0, number, PART):
        tables += new_rows(plan, keys, slice(start, start + PART))
        if start + PART < number:
            yield _statement(tables, "no_answer")
            tables = []
    tables += other_rows(plan)
    if not tables:
        return
    answer = "notify" if judged.wakes else "no_answer"
    if plan.changed:
        answer = "answer_and_notify" if judged.wakes else "answer"
    yield _statement(tables, answer, is_held=is_held)


def _statement(tables: Sequence[Rows], answer: str, *, is_held: bool = False) -> Statement:
    values: dict[str, Any] = {}
    sources = tuple([take(table, columns, values) for table, columns in tables])
    return bind(_template(sources, answer, is_held=is_held), values)


@cache
def _template(sources: tuple[Source, ...], answer: str, *, is_held: bool) -> str:
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
