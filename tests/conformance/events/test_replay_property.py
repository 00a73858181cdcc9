"""Whatever a failed event has been through, SQL and Python replay it to the same row."""

from __future__ import annotations

import asyncio
from typing import Any, get_args
from uuid import uuid4

from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from msgspec.structs import asdict

from homing import Homing
from homing.domain.delivery import Cycle, Delivery, FailedBecause, New
from homing.domain.failure import Failure
from homing.engine.queues import queue_name, queue_part
from homing.engine.work.handlers import event_queue
from homing.testing import samples
from homing_systems.events.route import replay
from tests.conformance.events.outbox import Outbox, adopt, plain

TIMES = st.none() | st.integers(0, 2_000_000_000_000)
TEXT = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=8)
FAILURES = st.none() | st.builds(
    Failure,
    st.sampled_from(["ConnectionError", "imported"]),
    st.sampled_from(["retry", "reject"]),
    code=st.none() | TEXT,
    detail=TEXT,
)
CYCLES = st.builds(
    Cycle,
    number=st.integers(1, 9),
    attempts=st.integers(0, 9),
    stage=st.just("handle"),
    last_error=st.none() | TEXT,
    first_failed_at_ms=TIMES,
    generation=st.integers(0, 3),
    replayed_at_ms=st.integers(0, 2_000_000_000_000),
    replayed_by=TEXT,
    reason=TEXT,
)
FIELDS = st.fixed_dictionaries(
    {
        "generation": st.integers(0, 3),
        "failed_because": st.sampled_from(get_args(FailedBecause)),
        "failure": FAILURES,
        "cycle": st.integers(1, 9),
        "attempts_ended": st.integers(0, 9),
        "attempts_spent": st.integers(0, 9),
        "max_attempts": st.none() | st.integers(1, 9),
        "crashes": st.integers(0, 3),
        "priority": st.integers(1, 3),
        "key_term_s": st.sampled_from([None, 60.0]),
        "first_failed_at_ms": TIMES,
        "last_failed_at_ms": TIMES,
        "expires_at_ms": TIMES,
        "maybe_sent_at_ms": TIMES,
        "doubt_waived": st.booleans(),
        "maybe_duplicate": st.booleans(),
        "earlier_maybe_sent": st.booleans(),
        "failure_history": st.lists(CYCLES, max_size=2).map(tuple),
        "metadata": st.dictionaries(st.sampled_from(["target", "trace"]), TEXT),
    }
)
HANDLERS = st.lists(st.sampled_from(["failed", "delivered"]), max_size=3)


def failed(event_id: str, fields: dict[str, Any], handlers: list[str]) -> New:
    """A failed event, with the rows of its handlers in these states."""
    common: dict[str, Any] = {
        "route": "events",
        "stage": "handle",
        "topic": "a/b",
        "due_at_ms": None,
    }
    common |= {"key": "k", "ended_at_ms": samples.NOW_MS, **fields}
    children = [
        samples.child(
            f"{event_id}-{number}",
            event_id,
            **common
            | {
                "state": state,
                "failed_because": fields["failed_because"] if state == "failed" else None,
                "queue": queue_name(
                    "events", f"{queue_part('a/b')}/h{number}", fields["generation"]
                ),
                "metadata": {"handler": f"h{number}"},
            },
        )
        for number, state in enumerate(handlers)
    ]
    event: dict[str, Any] = {
        **common,
        "state": "failed",
        "fanned_out": bool(handlers),
        "queue": event_queue("a/b", fields["generation"]),
        "source": event_id,
    }
    key = samples.key("k", event_id, source=event_id)
    payload = b'{"kind":"event","type":"a/b"}'
    return samples.new(event_id, payload=payload, keys=(key,), children=children, **event)


def test_sql_and_python_replay_every_failed_event_to_the_same_row(outbox: Outbox) -> None:
    """E-032, E-034, E-035"""
    homing = outbox.homing()

    async def both(fields: Any, handlers: list[str], later: int) -> None:
        by_sql, by_python = str(uuid4()), str(uuid4())
        new = [failed(each, fields, handlers) for each in (by_sql, by_python)]
        await homing.store.add(new)
        generation = fields["generation"] + later
        await asyncio.to_thread(outbox.replay, by_sql, generation, "ann")
        await adopt(homing)
        await replay(homing.ops, by_python, new_generation=generation, replayed_by="ann")
        sql, python = [await rows_of(homing, each, len(handlers)) for each in (by_sql, by_python)]
        assert sql == python
        assert columns(outbox, by_sql) == columns(outbox, by_python)

    @settings(max_examples=40, deadline=None, phases=[Phase.generate])
    @given(FIELDS, HANDLERS, st.integers(0, 2))
    def check(fields: Any, handlers: list[str], later: int) -> None:
        runner.run(both(fields, handlers, later))

    with asyncio.Runner() as runner:
        runner.run(homing.__aenter__())
        try:
            check()
        finally:
            runner.run(homing.__aexit__(None, None, None))


async def rows_of(homing: Homing, event_id: str, handlers: int) -> list[dict[str, Any]]:
    """The event and its handlers as Python reads them."""
    ids = [event_id, *(f"{event_id}-{number}" for number in range(handlers))]
    return [without_identity(await homing.ops.show(each)) for each in ids]


def without_identity(delivery: Delivery) -> dict[str, Any]:
    return asdict(plain(delivery)) | {"source": ""}


def columns(outbox: Outbox, event_id: str) -> list[dict[str, Any]]:
    """What claims and keys go by."""
    found = outbox.sql(
        "select d.queue, d.state, d.stage, d.phase, d.attempts_spent, d.open_children, d.carries,"
        " d.has_notices_due, d.failed_because, d.error_class, d.holder, d.priority,"
        " (select k.expires_at_ms from homing_keys as k where k.delivery_id = d.id) as expires"
        " from homing_deliveries as d where d.id like %s order by d.queue",
        f"{event_id}%",
    )
    assert found
    return found
