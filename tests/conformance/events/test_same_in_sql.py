"""SQL makes the queue, fingerprint and record that Python makes."""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from msgspec.structs import asdict
from psycopg.types.json import Jsonb

from homing import Event, Homing
from homing.engine.intake.preparing import prepare
from homing.engine.intake.request import Request
from tests.conformance.events.outbox import (
    Outbox,
    plain,
)


async def test_sql_and_python_store_the_same_delivery(outbox: Outbox) -> None:
    """E-002"""
    async with outbox.homing(generation=2) as homing:
        by_sql = outbox.enqueue("k", "a/b@c%", source="shop", target="ledger", generation=2)
        outbox.sql("truncate homing_keys")
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


TEXT = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=8)
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    # A whole float from 2**53 on is another number in JSON, which names its shortest digits.
    | st.floats(allow_nan=False, allow_infinity=False).filter(
        lambda number: not 2**53 <= abs(number) <= 2**64
    )
    # Where one of the two begins to write exponents.
    | st.floats(1e14, 2**53)
    | st.floats(-1e-3, 1e-7)
    | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=8,
)
TYPES = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=8)


@settings(
    max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@example(data=1000000000000000.5, event_type="t", generation=0)
@example(data=[-1234567890123456.5, 1.5e-5, 1.5e-6, 1e16, 0.1], event_type="t", generation=0)
@given(data=JSON, event_type=TYPES, generation=st.integers(0, 3))
def test_sql_makes_the_queue_and_the_fingerprint_of_python(
    outbox: Outbox, data: Any, event_type: str, generation: int
) -> None:
    """E-002"""
    [new] = prepared(Event(event_type, data), generation)
    found = outbox.sql(
        "select core.homing_queue(%s, %s) as queue, core.homing_fingerprint(%s, %s) as fingerprint,"
        " core.homing_event(%s, %s, false) as payload",
        *(event_type, generation),
        *(event_type, Jsonb(data), event_type, Jsonb(data)),
    )

    assert (found[0]["queue"], found[0]["fingerprint"]) == (
        new.delivery.queue,
        new.delivery.fingerprint,
    )
    read = msgspec.json.decode(found[0]["payload"])
    assert read.get("data") == msgspec.json.decode(new.payload).get("data")


def prepared(event: Event, generation: int) -> list[Any]:
    homing = Homing("memory:", worker=False)
    process = homing._made_engine().process
    [route] = [worker.route for worker in homing._made_engine().workers.values()]
    return prepare(process, [(route, Request(message=event, generation=generation))])
