"""Removes what a purge rule selects (stores/purging.py), the oldest first."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice, product

from homing.domain.delivery import Delivery
from homing.ports import PurgeRule
from homing.stores.purging import purged_states
from homing.stores.sql.columns import Row, delivery_of
from homing.stores.sql.ledger import CARRIES_ATTEMPT, attempt_row, implied_attempt
from homing.stores.sql.sqlite.rows import PARTS
from homing.stores.sql.sqlite.session import Session
from homing.stores.sql.statements import Bulk, load

_SQL = load(__package__, "purge.sql", PARTS)
_PUT_ATTEMPTS = Bulk(load(__package__, "save.sql", PARTS)["put_attempts"])

ALL_KINDS = range(8)
WITH_ATTEMPT = tuple(bits for bits in ALL_KINDS if bits & CARRIES_ATTEMPT)
WITH_CONTENT = tuple(bits for bits in ALL_KINDS if bits & ~CARRIES_ATTEMPT)


def purge_all(session: Session, rules: Sequence[PurgeRule]) -> list[int]:
    return [_PURGES[rule.what](session, rule) for rule in rules]


def remove(session: Session, seq: int | None, delivery: Delivery) -> None:
    """Remove a record and its content; `forget_recipients` removes the recipients."""
    session.counts.add(delivery, -1)
    session.removed.append(delivery)
    for table in ("delivery", "record", "content", "results"):
        session.run(_SQL[f"remove_{table}"], (seq,))


def forget_recipients(session: Session, seq: int, delivery: Delivery) -> None:
    for recipient in delivery.recipients:
        session.run(_SQL["remove_recipient"], (recipient.address, seq))


def _purge_deliveries(session: Session, rule: PurgeRule) -> int:
    """Keys and attempts outlive the record: an attempt that the record implied gets its row."""
    gone = _oldest(session, rule, "removable", ALL_KINDS)
    for _, _, seq, carries, done_by, done_since_ms, record, *fresh in gone:
        delivery = delivery_of(record, fresh)
        if carries & CARRIES_ATTEMPT:
            attempt = implied_attempt(delivery, done_by, done_since_ms)
            session.write(_PUT_ATTEMPTS, [attempt_row(delivery.route, attempt)])
        forget_recipients(session, seq, delivery)
        remove(session, seq, delivery)
    return len(gone)


def _purge_payloads(session: Session, rule: PurgeRule) -> int:
    emptied = _oldest(session, rule, "emptiable", WITH_CONTENT)
    for _, _, seq in emptied:
        session.run(_SQL["remove_content"], (seq,))
        session.run(_SQL["remove_results"], (seq,))
        session.run(_SQL["empty"], (seq,))
    return len(emptied)


def _oldest(
    session: Session, rule: PurgeRule, statement: str, carrying: Sequence[int]
) -> list[Row]:
    routes = _routes(session, rule, "routes_of_deliveries")
    ranges = [
        (_SQL[statement], (route, state, carries, rule.before_ms))
        for route, state, carries in product(routes, sorted(purged_states(rule)), carrying)
    ]
    return _first(session, ranges, rule.limit)


def _purge_attempts(session: Session, rule: PurgeRule) -> int:
    routes = _routes(session, rule, "routes_of_attempts")
    ranges: list[tuple[str, Row]] = [
        (_SQL["old_attempts"], (route, rule.before_ms)) for route in routes
    ]
    for route, carries in product(routes, WITH_ATTEMPT):
        ranges.append((_SQL["old_implied_attempts"], (route, carries, rule.before_ms)))
    gone = _first(session, ranges, rule.limit)
    session.run_each(_SQL["remove_attempt"], [row[1:3] for row in gone if not row[3]])
    session.run_each(_SQL["remove_implied_attempt"], [row[3:] for row in gone if row[3]])
    return len(gone)


def _purge_keys(session: Session, rule: PurgeRule) -> int:
    return session.run(_SQL["remove_keys"], (rule.before_ms, max(rule.limit, 0)))


def _purge_facts(session: Session, rule: PurgeRule) -> int:
    return session.run(_SQL["remove_facts"], (rule.before_ms, rule.fact_kind, max(rule.limit, 0)))


def _routes(session: Session, rule: PurgeRule, all_routes: str) -> list[str]:
    if rule.route is not None:
        return [rule.route]
    return [route for (route,) in session.ask(_SQL[all_routes])]


def _first(session: Session, ranges: Sequence[tuple[str, Row]], limit: int) -> list[Row]:
    with session.stream(ranges) as rows:
        return list(islice(rows, max(limit, 0)))


_PURGES = {
    "delivery": _purge_deliveries,
    "payload": _purge_payloads,
    "attempts": _purge_attempts,
    "keys": _purge_keys,
    "facts": _purge_facts,
}
