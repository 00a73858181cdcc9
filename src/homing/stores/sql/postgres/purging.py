"""Removes what a purge rule selects (stores/purging.py), the oldest first."""

from __future__ import annotations

from itertools import product
from typing import Any

from homing.domain.delivery import Delivery
from homing.ports import PurgeRule
from homing.stores.purging import purged_states
from homing.stores.sql.columns import FRESH, Row, delivery_of
from homing.stores.sql.layouts import LayoutTables
from homing.stores.sql.ledger import CARRIES_ATTEMPT, attempt_row, implied_attempt
from homing.stores.sql.postgres import layout_rows
from homing.stores.sql.postgres.arrays import Array
from homing.stores.sql.postgres.connection import Session
from homing.stores.sql.postgres.rows import ATTEMPT_COLUMNS, PARTS, arrays
from homing.stores.sql.postgres.statement import bind, run_async
from homing.stores.sql.statements import load

_SQL = load(
    __package__,
    "purge.sql",
    PARTS | {"fresh_of_x": ", ".join(f"x.{name}" for name in FRESH)},
)
_SAVE = load(__package__, "save.sql", PARTS)
_ALL_KINDS = range(8)
_WITH_CONTENT = tuple(bits for bits in _ALL_KINDS if bits & ~CARRIES_ATTEMPT)


ADD_COUNTS_UP = bind(_SQL["add_counts_up"], {})


async def purge(session: Session, rule: PurgeRule, layouts: LayoutTables | None = None) -> int:
    await session.run(ADD_COUNTS_UP)
    if rule.what == "delivery":
        return await _purge_deliveries(session, rule, layouts)
    if rule.what == "payload":
        return await _purge_payloads(session, rule, layouts)
    return await _PURGES[rule.what](session, rule)


async def _purge_deliveries(session: Session, rule: PurgeRule, layouts: LayoutTables | None) -> int:
    """Keys and attempts outlive the record: an attempt that the record implied gets its row."""
    found = await _oldest(session, rule, "removable", tuple(_ALL_KINDS))
    ids: list[str] = []
    implied: list[Row] = []
    recipients: list[Row] = []
    shown: list[Delivery] = []
    for delivery_id, carries, done_by, done_since_ms, record, *fresh in found:
        delivery = delivery_of(record, fresh)
        ids.append(delivery_id)
        shown.append(delivery)
        recipients += [(one.address, delivery_id) for one in delivery.recipients]
        if carries & CARRIES_ATTEMPT:
            attempt = implied_attempt(delivery, done_by, done_since_ms)
            implied.append(attempt_row(delivery.route, attempt))
    if implied:
        await _run(session, _SAVE["put_attempts"], arrays("attempt", ATTEMPT_COLUMNS, implied))
    if recipients:
        columns = ("address", "id")
        await _run(session, _SAVE["drop_recipients"], arrays("recipient", columns, recipients))
    if ids:
        for statement in (
            _SQL["remove_deliveries"],
            _SAVE["remove_records"],
            _SAVE["remove_results"],
        ):
            await _run(session, statement, {"ids": Array("text", ids)})
    if layouts and shown:
        await run_async(layout_rows.remove(layouts, shown), session.run)
    return len(ids)


async def _purge_payloads(session: Session, rule: PurgeRule, layouts: LayoutTables | None) -> int:
    ids = [row[0] for row in await _oldest(session, rule, "emptiable", _WITH_CONTENT)]
    if ids:
        for statement in (_SQL["empty"], _SQL["empty_records"], _SAVE["remove_results"]):
            await _run(session, statement, {"ids": Array("text", ids)})
        if layouts:
            await run_async(layout_rows.refresh(layouts, ids), session.run)
    return len(ids)


async def _oldest(
    session: Session, rule: PurgeRule, statement: str, carrying: tuple[int, ...]
) -> list[Row]:
    ranges = list(product(await _routes(session, rule), sorted(purged_states(rule)), carrying))
    values = {
        "routes": Array("text", [route for route, _, _ in ranges]),
        "states": Array("text", [state for _, state, _ in ranges]),
        "carries": Array("bigint", [carries for _, _, carries in ranges]),
    }
    return await _run(session, _SQL[statement], values | _bounds(rule)) if ranges else []


async def _purge_attempts(session: Session, rule: PurgeRule) -> int:
    values = {"routes": Array("text", await _routes(session, rule))} | _bounds(rule)
    old = await _run(session, _SQL["old_attempts"], values)
    rows = [(delivery_id, number) for delivery_id, number, is_implied in old if not is_implied]
    ids = [delivery_id for delivery_id, _, is_implied in old if is_implied]
    gone: list[Row] = []
    if rows:
        values = {
            "ids": Array("text", [delivery_id for delivery_id, _ in rows]),
            "numbers": Array("bigint", [number for _, number in rows]),
        }
        gone += await _run(session, _SQL["remove_attempts"], values)
    if ids:
        gone += await _run(session, _SQL["remove_implied_attempts"], {"ids": Array("text", ids)})
    return len(gone)


async def _purge_keys(session: Session, rule: PurgeRule) -> int:
    return len(await _run(session, _SQL["remove_keys"], _bounds(rule)))


async def _purge_facts(session: Session, rule: PurgeRule) -> int:
    values = {"kind": rule.fact_kind} | _bounds(rule)
    return len(await _run(session, _SQL["remove_facts"], values))


async def _routes(session: Session, rule: PurgeRule) -> list[str]:
    if rule.route is not None:
        return [rule.route]
    return [route for (route,) in await _run(session, _SQL["routes"], {})]


def _bounds(rule: PurgeRule) -> dict[str, Any]:
    return {"before_ms": rule.before_ms, "limit": max(rule.limit, 0)}


async def _run(session: Session, sql: str, values: Any) -> list[Row]:
    return await session.run(bind(sql, values))


_PURGES = {
    "attempts": _purge_attempts,
    "keys": _purge_keys,
    "facts": _purge_facts,
}
