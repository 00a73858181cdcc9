"""The saves of a worker as one statement: outcomes, marks and retries of what it has claimed.

Each row is written over its version by itself, so nothing has to be read first: the statement
returns the ids of the rows that it wrote, and the claims of the others were lost.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from operator import itemgetter
from typing import Any

from homing.stores.sql.columns import COLUMNS, FRESH, PLACES, Row
from homing.stores.sql.postgres.changes import ChangeEntry
from homing.stores.sql.postgres.rows import (
    NAMES,
    Facts,
    delivery_row,
    has_ended,
    row_source,
)
from homing.stores.sql.postgres.statement import Statement, bind
from homing.stores.sql.statements import load

# Columns that a save may bring: those that a claimed delivery changes without its record, or all.
_FRESH = tuple(name for name in FRESH if name not in ("version", "open_children"))
_ALL = tuple(column.name for column in COLUMNS if not column.fixed and column.name != "version")
# What every save brings beside them.
_TOO = ("carries", "done_by", "done_since_ms", "is_stale")
_EXTRAS: dict[str, tuple[str, ...]] = {
    "record": ("new_record",),
    "attempt": ("attempt_number", "attempt_ended_at_ms", "attempt_record"),
    "result": ("result_name", "result_data"),
    "term": ("term_source", "term_key", "term_expires_at_ms"),
    "fact": ("fact_kind", "fact_key", "fact_at_ms", "fact_value"),
}


def settle_statement(
    entries: Sequence[ChangeEntry], facts: Facts, *, wakes: bool
) -> Statement | None:
    """None if there is nothing to write."""
    values: dict[str, Any] = {}
    tail = [f"call_{part}" for part in facts.parts(values)]
    if not entries:
        return bind(_template((), (), (), tuple(tail), wakes=False), values) if tail else None
    only_fresh = all(entry.fresh is not None for entry in entries)
    brought = _FRESH if only_fresh else _ALL
    extras = _extras_of(entries)
    ends: list[Row] = []
    goes_on: list[Row] = []
    for entry in entries:
        row = _row(entry, extras, only_fresh=only_fresh)
        (ends if has_ended(entry.write.delivery.state) else goes_on).append(row)
    columns = _columns(brought, extras)
    sources = {}
    for part, rows in (("ended", ends), ("updated", goes_on)):
        if rows:
            sources[part], given = row_source(part, columns, rows)
            values |= given
    template = _template(tuple(sources), brought, extras, tuple(tail), wakes=wakes)
    for part, source in sources.items():
        template = template.replace(f":{part}_rows:", source)
    return bind(template, values)


def _columns(brought: tuple[str, ...], extras: tuple[str, ...]) -> tuple[str, ...]:
    return ("id", "over", *brought, *_TOO, *[name for part in extras for name in _EXTRAS[part]])


_fresh: Callable[[Any], Row] = itemgetter(*(FRESH.index(name) for name in _FRESH))
_all: Callable[[Any], Row] = itemgetter(*(PLACES[name] for name in _ALL))


def _row(entry: ChangeEntry, extras: tuple[str, ...], *, only_fresh: bool) -> Row:
    write = entry.write
    brought = _fresh(entry.fresh) if only_fresh else _all(entry.row or delivery_row(write.delivery))
    is_stale = 0 if entry.record is not None else 1
    row = (write.delivery.id, write.over, *brought, entry.carries, *entry.done, is_stale)
    if not extras:
        return row
    return (*row, *[value for part in extras for value in _extra(entry, part)])


def _extras_of(entries: Sequence[ChangeEntry]) -> tuple[str, ...]:
    found = {
        "record": any(entry.record is not None for entry in entries),
        "attempt": any(entry.attempts for entry in entries),
        "result": any(entry.write.results for entry in entries),
        "term": any(entry.write.terms for entry in entries),
        "fact": any(entry.facts for entry in entries),
    }
    return tuple(part for part in _EXTRAS if found[part])


def _extra(entry: ChangeEntry, part: str) -> Sequence[object]:
    write = entry.write
    if part == "record":
        return (entry.record,)
    if part == "attempt" and entry.attempts:
        _, number, _, ended_at_ms, record = entry.attempts[0]
        return (number, ended_at_ms, record)
    if part == "result" and write.results:
        [(name, data)] = write.results.items()
        return (name, data)
    if part == "term" and write.terms:
        [key] = write.terms
        return (key.source, key.key, key.expires_at_ms)
    if part == "fact" and entry.facts:
        return entry.facts[0]
    return (None,) * len(_EXTRAS[part])


@cache
def _template(
    parts: tuple[str, ...],
    columns: tuple[str, ...],
    extras: tuple[str, ...],
    tail: tuple[str, ...],
    *,
    wakes: bool,
) -> str:
    brought = _columns(columns, extras)
    extra = [name for part in extras for name in _EXTRAS[part]]
    sql = load(
        __package__,
        "save.sql",
        {
            "columns": ", ".join(NAMES),
            "saved": ", ".join(brought),
            "ended_values": ", ".join(f"{_value(name, brought)} as {name}" for name in NAMES),
            "set_open": ", ".join(
                f"{name} = {_value(name, brought)}"
                for name in NAMES
                if name == "version" or name in brought[2:]
            ),
            "extras": ", ".join([f"w.{name}" for name in extra] or ["0"]),
        },
    )
    saved = "\nunion all\n".join(
        f"select {', '.join(['id', 'route', *extra])} from {part}"  # noqa: S608 - constants
        for part in parts
    )
    steps = [sql[part] for part in parts]
    if parts:
        steps += [f"saved as materialized ({saved})", *[sql[part] for part in extras]]
    steps += [sql[part] for part in tail]
    answer = sql["facts_alone"]
    if parts:
        answer = sql["answer_and_notify" if wakes else "answer"]
    return "with " + ",\n".join(steps) + "\n" + answer


def _value(name: str, brought: tuple[str, ...]) -> str:
    if name == "version":
        return "o.version + 1"
    if name == "carries":
        return "(o.carries & 3) | w.carries"
    return f"w.{name}" if name in brought else f"o.{name}"
