"""Removes what a purge rule selects (stores/purging.py), the oldest first."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from homing.domain.delivery import State
from homing.ports import PurgeRule
from homing.stores.codec import encode_text
from homing.stores.purging import PURGES, purged_states
from homing.stores.sql.asking import Ask, Steps, listed
from homing.stores.sql.columns import Row, delivery_of
from homing.stores.sql.dialect import Dialect
from homing.stores.sql.ledger import implied_attempt

_CARRIES_ATTEMPT = 4
# What rows carry is part of the index of retention.
_ANY = range(8)
_WITH_ATTEMPT = [carries for carries in _ANY if carries & _CARRIES_ATTEMPT]
_WITH_CONTENT = [carries for carries in _ANY if carries & ~_CARRIES_ATTEMPT]


def purge(dialect: Dialect, rule: PurgeRule) -> Steps[int]:
    """Returns how many were removed. It is asked in a transaction."""
    return _PURGES[rule.what](dialect, rule)


def _purge_deliveries(dialect: Dialect, rule: PurgeRule) -> Steps[int]:
    """Keys and attempts outlive the record: an attempt that the record implied gets its row."""
    old = yield from _old_deliveries(dialect, rule, purged_states(rule), _ANY)
    attempts: list[Row] = []
    recipients: list[Row] = []
    for row, carries, done_by, done_since_ms, record, *fresh in old:
        delivery = delivery_of(record, fresh)
        recipients += {(recipient.address, row) for recipient in delivery.recipients}
        if carries & _CARRIES_ATTEMPT:
            made = implied_attempt(delivery, done_by, done_since_ms)
            place = (made.delivery_id, made.number, delivery.route, made.ended_at_ms)
            attempts.append((*place, encode_text(made)))
    yield from _run_script(
        dialect.sql["remove_deliveries"],
        rows=[row[0] for row in old],
        attempts=attempts,
        recipients=recipients,
    )
    return len(old)


def _purge_payloads(dialect: Dialect, rule: PurgeRule) -> Steps[int]:
    old = yield from _old_deliveries(dialect, rule, purged_states(rule), _WITH_CONTENT)
    yield from _run_script(dialect.sql["empty"], rows=[row[0] for row in old])
    return len(old)


def _purge_attempts(dialect: Dialect, rule: PurgeRule) -> Steps[int]:
    """Attempts have rows, or delivered records imply them."""
    given = {"routes": (yield from _routes(dialect, rule))} | _bounds(rule)
    found = [(*row, None) for row in (yield Ask(dialect.sql["old_attempts"], given))]
    for row, _, _, _, record, *fresh in (
        yield from _old_deliveries(dialect, rule, ["delivered"], _WITH_ATTEMPT)
    ):
        delivery = delivery_of(record, fresh)
        found.append((delivery.ended_at_ms, delivery.id, delivery.attempts_ended, row))
    found = sorted(found, key=lambda attempt: attempt[:3])[: max(rule.limit, 0)]
    stored = [[delivery_id, number] for _, delivery_id, number, row in found if row is None]
    implied = [row for *_, row in found if row is not None]
    gone = yield Ask(dialect.sql["remove_attempts"], {"attempts": listed(stored)})
    gone += yield Ask(dialect.sql["remove_implied_attempts"], {"rows": listed(implied)})
    return len(gone)


def _purge_keys(dialect: Dialect, rule: PurgeRule) -> Steps[int]:
    return len((yield Ask(dialect.sql["remove_keys"], _bounds(rule))))


def _purge_facts(dialect: Dialect, rule: PurgeRule) -> Steps[int]:
    return len((yield Ask(dialect.sql["remove_facts"], {"kind": rule.fact_kind} | _bounds(rule))))


def _old_deliveries(
    dialect: Dialect, rule: PurgeRule, states: Iterable[State], carrying: Iterable[int]
) -> Steps[list[Row]]:
    given = {
        "routes": (yield from _routes(dialect, rule)),
        "states": listed(sorted(states)),
        "carrying": listed(list(carrying)),
        "keeps_family": PURGES[rule.what].keeps_family,
    }
    return (yield Ask(dialect.sql["old_deliveries"], given | _bounds(rule)))


def _routes(dialect: Dialect, rule: PurgeRule) -> Steps[str]:
    if rule.route is not None:
        return listed([rule.route])
    return listed([route for (route,) in (yield Ask(dialect.sql["routes"]))])


def _bounds(rule: PurgeRule) -> dict[str, Any]:
    return {"before_ms": rule.before_ms, "limit": max(rule.limit, 0)}


def _run_script(script: str, **given: list[Any]) -> Steps[None]:
    """All statements of a script, with the same lists; none if there are no rows."""
    values = {name: listed(values) for name, values in given.items()}
    for statement in script.split(";\n") if given["rows"] else ():
        yield Ask(statement, values)


_PURGES = {
    "delivery": _purge_deliveries,
    "payload": _purge_payloads,
    "attempts": _purge_attempts,
    "keys": _purge_keys,
    "facts": _purge_facts,
}
