"""Removes what a rule of `stores/purging` selects."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

from homing.domain.delivery import Content
from homing.ports import PurgeKind, PurgeRule
from homing.stores.memory.disk import MemoryDisk
from homing.stores.purging import PURGES, is_open, purged_states

NOTHING = Content()

Place: TypeAlias = tuple[str, ...] | tuple[str, int]
"""Where a record lies: its id, its name, or id and number."""


def purge(disk: MemoryDisk, rule: PurgeRule) -> int:
    records, take_away = _KINDS[rule.what]
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
    for _, place in gone:
        take_away(disk, *place)
    return len(gone)


def _deliveries(disk: MemoryDisk) -> Iterator[tuple[Place, Any, str]]:
    for delivery in disk.deliveries.values():
        yield (delivery.id,), delivery, delivery.route


def _with_content(disk: MemoryDisk) -> Iterator[tuple[Place, Any, str]]:
    return (found for found in _deliveries(disk) if disk.contents[found[1].id] != NOTHING)


def _attempts(disk: MemoryDisk) -> Iterator[tuple[Place, Any, str]]:
    for delivery_id, ledger in disk.attempts.items():
        for number, (route, attempt) in ledger.items():
            yield (delivery_id, number), attempt, route


def _keys(disk: MemoryDisk) -> Iterator[tuple[Place, Any, str]]:
    for name, key in disk.keys.items():
        yield name, key, ""


def _facts(disk: MemoryDisk) -> Iterator[tuple[Place, Any, str]]:
    for kind, facts in disk.facts.items():
        for key, fact in facts.items():
            yield (kind, key), fact, ""


def _remove(disk: MemoryDisk, delivery_id: str) -> None:
    disk.remove(delivery_id)


def _empty(disk: MemoryDisk, delivery_id: str) -> None:
    disk.contents[delivery_id] = NOTHING


def _drop_attempt(disk: MemoryDisk, delivery_id: str, number: int) -> None:
    del disk.attempts[delivery_id][number]


def _drop_key(disk: MemoryDisk, source: str, key: str) -> None:
    del disk.keys[source, key]


def _drop_fact(disk: MemoryDisk, kind: str, key: str) -> None:
    del disk.facts[kind][key]


_KINDS: dict[
    PurgeKind,
    tuple[Callable[[MemoryDisk], Iterator[tuple[Place, Any, str]]], Callable[..., None]],
] = {
    "delivery": (_deliveries, _remove),
    "payload": (_with_content, _empty),
    "attempts": (_attempts, _drop_attempt),
    "keys": (_keys, _drop_key),
    "facts": (_facts, _drop_fact),
}
