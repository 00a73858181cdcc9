"""Whose route it is, stored for processes that do not have it installed."""

from __future__ import annotations

from collections.abc import Collection

from homing.domain.delivery import Fact, FactValue
from homing.ports import Store

ROUTE_OWNER = "route_owner"


async def stored_owners(store: Store) -> dict[str, str]:
    """The owner of each route by name, as processes have stored it."""
    facts = await store.facts(ROUTE_OWNER)
    return {fact.key: str((fact.value or {}).get("owner")) for fact in facts}


async def store_owner(
    store: Store, owner: str, routes: Collection[str], known: dict[str, str], now_ms: int
) -> None:
    """`known` are the stored owners: nothing is written if they agree."""
    if any(known.get(name) != owner for name in routes):
        value: FactValue = {"owner": owner}
        await store.save([], [Fact(ROUTE_OWNER, name, now_ms, value) for name in routes])
