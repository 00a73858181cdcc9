"""What may be taken away for good, and what never.

A delivery that has not ended is never touched, whatever the rule names. An open dead letter
(`failed`) and its payload go only where the rule names it; a rule that names no state means the
other ends. A child is kept as long as its parent's record: a replay of the parent must find it.
The oldest go first.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator

from homing.domain.delivery import TERMINAL_STATES, Content, Delivery, State
from homing.ports import PurgeRule
from homing.stores.memory.disk import MemoryDisk

CLOSED_STATES: frozenset[State] = TERMINAL_STATES - {"failed"}
NOTHING = Content()


def purge(disk: MemoryDisk, rule: PurgeRule) -> int:
    return _PURGES[rule.what](disk, rule)


def _purge_deliveries(disk: MemoryDisk, rule: PurgeRule) -> int:
    gone = heapq.nsmallest(
        max(rule.limit, 0),
        (
            (d.ended_at_ms, d.id)
            for d in _ended_before(disk, rule)
            if d.parent_id not in disk.deliveries
        ),
    )
    for _, delivery_id in gone:
        disk.remove(delivery_id)
    return len(gone)


def _purge_payloads(disk: MemoryDisk, rule: PurgeRule) -> int:
    emptied = heapq.nsmallest(
        max(rule.limit, 0),
        (
            (d.ended_at_ms, d.id)
            for d in _ended_before(disk, rule)
            if disk.contents[d.id] != NOTHING
        ),
    )
    for _, delivery_id in emptied:
        disk.contents[delivery_id] = NOTHING
    return len(emptied)


def _ended_before(disk: MemoryDisk, rule: PurgeRule) -> Iterator[Delivery]:
    states = TERMINAL_STATES.intersection(rule.states or CLOSED_STATES)
    for delivery in disk.deliveries.values():
        if (
            delivery.state in states
            and delivery.ended_at_ms is not None
            and delivery.ended_at_ms < rule.before_ms
            and rule.route in (None, delivery.route)
        ):
            yield delivery


def _purge_attempts(disk: MemoryDisk, rule: PurgeRule) -> int:
    gone = heapq.nsmallest(
        max(rule.limit, 0),
        (
            (attempt.ended_at_ms, delivery_id, number)
            for delivery_id, ledger in disk.attempts.items()
            for number, (route, attempt) in ledger.items()
            if attempt.ended_at_ms is not None
            and attempt.ended_at_ms < rule.before_ms
            and rule.route in (None, route)
        ),
    )
    for _, delivery_id, number in gone:
        del disk.attempts[delivery_id][number]
    return len(gone)


def _purge_keys(disk: MemoryDisk, rule: PurgeRule) -> int:
    gone = heapq.nsmallest(
        max(rule.limit, 0),
        (
            (key.expires_at_ms, name)
            for name, key in disk.keys.items()
            if key.expires_at_ms is not None and key.expires_at_ms < rule.before_ms
        ),
    )
    for _, name in gone:
        del disk.keys[name]
    return len(gone)


def _purge_facts(disk: MemoryDisk, rule: PurgeRule) -> int:
    gone = heapq.nsmallest(
        max(rule.limit, 0),
        (
            (fact.at_ms, kind, key)
            for kind, facts in disk.facts.items()
            if rule.fact_kind in (None, kind)
            for key, fact in facts.items()
            if fact.at_ms < rule.before_ms
        ),
    )
    for _, kind, key in gone:
        del disk.facts[kind][key]
    return len(gone)


_PURGES = {
    "delivery": _purge_deliveries,
    "payload": _purge_payloads,
    "attempts": _purge_attempts,
    "keys": _purge_keys,
    "facts": _purge_facts,
}
