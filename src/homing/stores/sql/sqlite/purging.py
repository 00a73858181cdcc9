"""What may be taken away for good. What has not ended never may.

An open dead letter (`failed`) and its payload go only where the rule names that state. A child is
kept as long as its parent's record. The oldest go first.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice, product

from homing.domain.delivery import TERMINAL_STATES, Delivery, State
from homing.ports import PurgeRule
from homing.stores.codec import decode_delivery
from homing.stores.sql.sqlite.rows import Row
from homing.stores.sql.sqlite.session import Session
from homing.stores.sql.statements import load

_SQL = load(__package__, "purge.sql")
CLOSED_STATES: frozenset[State] = TERMINAL_STATES - {"failed"}


def purge_all(session: Session, rules: Sequence[PurgeRule]) -> list[int]:
    return [_PURGES[rule.what](session, rule) for rule in rules]


def remove(session: Session, gone: Iterable[tuple[int, Delivery]]) -> None:
    """Take away records and what they carry; keys and attempts have lives of their own."""
    for seq, delivery in gone:
        session.run(_SQL["remove_delivery"], (seq,))
        _remove_content(session, seq)
        forget_recipients(session, seq, delivery)


def forget_recipients(session: Session, seq: int, delivery: Delivery) -> None:
    for recipient in delivery.recipients:
        session.run(_SQL["remove_recipient"], (recipient.address, seq))


def _remove_content(session: Session, seq: int) -> None:
    session.run(_SQL["remove_content"], (seq,))
    session.run(_SQL["remove_results"], (seq,))


def _purge_deliveries(session: Session, rule: PurgeRule) -> int:
    gone = _oldest(session, rule, "removable", carrying=(0, 1, 2, 3))
    remove(session, [(seq, decode_delivery(record)) for _, _, seq, record in gone])
    return len(gone)


def _purge_payloads(session: Session, rule: PurgeRule) -> int:
    emptied = _oldest(session, rule, "emptiable", carrying=(1, 2, 3))
    for _, _, seq, _ in emptied:
        _remove_content(session, seq)
        session.run(_SQL["empty"], (seq,))
    return len(emptied)


def _oldest(
    session: Session, rule: PurgeRule, statement: str, carrying: tuple[int, ...]
) -> list[Row]:
    routes = _routes(session, rule, "routes_of_deliveries")
    states = TERMINAL_STATES.intersection(rule.states or CLOSED_STATES)
    ranges = [
        (route, state, carries, rule.before_ms)
        for route, state, carries in product(routes, sorted(states), carrying)
    ]
    return _first(session, statement, ranges, rule.limit)


def _purge_attempts(session: Session, rule: PurgeRule) -> int:
    routes = _routes(session, rule, "routes_of_attempts")
    ranges = [(route, rule.before_ms) for route in routes]
    gone = _first(session, "old_attempts", ranges, rule.limit)
    session.run_each(_SQL["remove_attempt"], [(row[1], row[2]) for row in gone])
    return len(gone)


def _purge_keys(session: Session, rule: PurgeRule) -> int:
    return session.run(_SQL["remove_keys"], (rule.before_ms, max(rule.limit, 0)))


def _purge_facts(session: Session, rule: PurgeRule) -> int:
    return session.run(_SQL["remove_facts"], (rule.before_ms, rule.fact_kind, max(rule.limit, 0)))


def _routes(session: Session, rule: PurgeRule, all_routes: str) -> list[str]:
    if rule.route is not None:
        return [rule.route]
    return [route for (route,) in session.ask(_SQL[all_routes])]


def _first(session: Session, statement: str, ranges: Sequence[Row], limit: int) -> list[Row]:
    with session.stream(_SQL[statement], ranges) as rows:
        return list(islice(rows, max(limit, 0)))


_PURGES = {
    "delivery": _purge_deliveries,
    "payload": _purge_payloads,
    "attempts": _purge_attempts,
    "keys": _purge_keys,
    "facts": _purge_facts,
}
