"""Removes what a rule of `stores/purging` selects."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

from homing.ports import PurgeKind, PurgeRule
from homing.stores.memory.disk import NOTHING, MemoryDisk
from homing.stores.purging import PURGES, is_open, purged_states

Place: TypeAlias = tuple[str, ...] | tuple[str, int]
"""Where a record lies: its id, its name, or id and number."""


def purge(disk: MemoryDisk, rule: PurgeRule) -> int:
    places = purged(disk, rule)
    take_away = _KINDS[rule.what][1]
    for place in places:
        take_away(disk, *place)
    return len(places)


def purged(disk: MemoryDisk, rule: PurgeRule) -> list[Place]:
    """Where the oldest records that the rule selects lie."""
    records = _KINDS[rule.what][0]
    how, states = PURGES[rule.what], purged_states(rule)
    gone = heapq.nsmallest(
        max(rule.limit, 0),
        (
            (at_ms, place)
            for place, record, route in records(disk)
            if (at_ms := getattr(record, how.time)) is not None
            and at_ms < rule.before_ms
            and (not how.by_route or rule.route in (None, route))
            and (not how.by_state or record.state in states)
            and (not how.by_fact_kind or rule.fact_kind in (None, record.kind))
            and (not how.keeps_family or record.parent_id not in disk.deliveries)
            and (not how.keeps_open or not is_open(disk.deliveries.get(record.delivery_id)))
        ),
    )
    return [place for _, place in gone]


def _deliveries(disk: MemoryDisk) -> Iterator[tuple[Place, Any, str]]:
    for delivery in disk.deliveries.values():
        yield (delivery.id,), delivery, delivery.route


def _with_content(disk: MemoryDisk) -> Iterator[tuple[Place, Any, str]]:
    return (found for found in _deliveries(disk) if disk.has_content(found[1].id))


def _attempts(disk: MemoryDisk) -> Iterator[tuple[Place, Any, str]]:
    for delivery_id, ledger in disk.attempts.items():
        for number, row in ledger.items():
            yield (delivery_id, number), row.attempt, row.route


def _keys(disk: MemoryDisk) -> Iterator[tuple[Place, Any, str]]:
    for name, key in disk.keys.items():
        yield name, key, ""


def _facts(disk: MemoryDisk) -> Iterator[tuple[Place, Any, str]]:
    for kind, facts in disk.facts.items():
        for key, fact in facts.items():
            yield (kind, key), fact, ""


_KINDS: dict[
    PurgeKind,
    tuple[Callable[[MemoryDisk], Iterator[tuple[Place, Any, str]]], Callable[..., None]],
] = {
    "delivery": (_deliveries, lambda disk, *place: disk.remove(*place)),
    "payload": (_with_content, lambda disk, *place: disk.put_content(*place, NOTHING)),
    "attempts": (_attempts, lambda disk, *place: disk.drop_attempt(*place)),
    "keys": (_keys, lambda disk, *place: disk.drop_key(*place)),
    "facts": (_facts, lambda disk, *place: disk.drop_fact(*place)),
}
