"""A row that SQL writes becomes the delivery that Python makes."""

from __future__ import annotations

from msgspec.structs import asdict

from homing import Event
from tests.conformance.events.outbox import (
    Outbox,
    adopt,
    plain,
)


async def test_sql_and_python_store_the_same_delivery(outbox: Outbox) -> None:
    """E-002"""
    async with outbox.homing(generation=2) as homing:
        by_sql = outbox.enqueue("k", "a/b@c%", source="shop", target="ledger", generation=2)
        await adopt(homing)
        outbox.sql("truncate homing_keys, core.outbox")
        ticket = await homing.submit(
            Event("a/b@c%", {"n": 1}),
            key="k",
            source="shop",
            generation=2,
            metadata={"target": "ledger"},
        )
        sql, python = [await homing.ops.show(id_) for id_ in (by_sql, ticket.delivery_id)]
        assert asdict(plain(sql)) == asdict(plain(python))
    own = "id, created_at_ms, updated_at_ms, due_at_ms"
    for table in ("homing_open", "homing_records"):
        one, other = outbox.sql(f"select * from {table} order by id")
        for name in (*own.split(", "), "record"):
            one.pop(name, None), other.pop(name, None)
        assert one == other
