"""The rows that a plan writes, table by table: for each its columns, which `writing` makes a part
of a statement."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from homing.domain.delivery import Key
from homing.domain.writes import Write
from homing.stores.judging import Effect
from homing.stores.sql.blocks import delivery_columns
from homing.stores.sql.columns import COLUMNS, FRESH, Row
from homing.stores.sql.planning import Changed, Plan, fact_rows, key_columns, new_columns
from homing.stores.sql.postgres.rows import has_ended

Rows: TypeAlias = tuple[str, Mapping[str, Sequence[Any]]]
"""The part of the statement that writes them, and their columns."""

_FIXED = [column.name for column in COLUMNS if column.fixed]


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


def new_rows(plan: Plan, keys: Sequence[Key], part: slice) -> Iterator[Rows]:
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


def other_rows(plan: Plan) -> Iterator[Rows]:
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
