"""`core.outbox` in PostgreSQL: every plain statement works, and Python and SQL do the same."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from datetime import UTC, datetime
from importlib.resources import files
from typing import Any
from uuid import UUID, uuid4

import msgspec
import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import asdict, replace
from psycopg.types.json import Jsonb

from homing import Event, Homing, IdempotencyConflict, Query
from homing.assemblies.events.record import SHAPE
from homing.assemblies.events.route import as_outbox, replay
from homing.domain.delivery import Delivery
from homing.domain.errors import InvalidRequest, NotAllowed
from homing.engine.preparing import prepare
from homing.engine.request import Request
from homing.events import FailureCycle, TerminalHandlerError
from homing.ports import Claim
from homing.stores.shape import Stored
from homing.stores.sql.postgres import PostgresStore
from homing.testing.clocks import ManualClock
from tests.conformance.events.outbox import Outbox, failing, work, work_until_failed

PACKAGE = "homing.assemblies.events.postgres"


@pytest.fixture
def clock(outbox: Outbox) -> ManualClock:
    """Ahead of the server's own, by which SQL sets its times."""
    return ManualClock(outbox.value("select core.homing_now_ms()") + 60_000)


async def stored(homing: Homing, event_id: str) -> Stored:
    content = await homing.store.content(event_id)
    assert content is not None
    return Stored(await homing.desk.show(event_id), content, ())


def as_shape(row: dict[str, Any]) -> dict[str, Any]:
    """A row of the view in the types of the Shape."""

    def plain(value: Any) -> Any:
        if isinstance(value, datetime):
            at = value.astimezone(UTC).isoformat(timespec="milliseconds")
            return at.replace("+00:00", "Z")
        return str(value) if isinstance(value, UUID) else value

    return {name: plain(value) for name, value in row.items()}


# What is there


def test_the_columns_and_their_defaults(outbox: Outbox) -> None:
    """E-027, E-028, E-029"""
    found = outbox.sql(
        "select column_name, data_type, column_default from information_schema.columns"
        " where table_schema = 'core' and table_name = 'outbox'"
    )
    types = {row["column_name"]: row["data_type"] for row in found}
    defaults = {row["column_name"]: row["column_default"] for row in found}

    assert set(types) == set(SHAPE.fields)
    assert (types["failure_history"], types["attempts"]) == ("jsonb", "integer")
    assert (types["last_error"], types["first_failed_at"]) == ("text", "timestamp with time zone")
    assert defaults["attempts"] == "0"
    assert defaults["failure_history"] == "'[]'::jsonb"
    row = outbox.row(outbox.enqueue())
    assert (row["failure_history"], row["attempts"], row["last_error"]) == ([], 0, None)


def test_there_is_no_table_of_dead_letters(outbox: Outbox) -> None:
    """E-004, E-057"""
    found = outbox.sql(
        "select relname, relkind::text from pg_class"
        " where relnamespace = 'core'::regnamespace and relkind in ('r', 'v', 'm')"
    )

    assert {row["relname"]: row["relkind"] for row in found} == {
        "outbox": "v",
        "event_handled": "v",
        "outbox_failure_history_size": "v",
    }


def test_only_four_words_are_stored(outbox: Outbox) -> None:
    """E-001"""
    insert = (
        "insert into core.outbox (event_type, payload, idempotency_key, status)"
        " values ('paid', '{}', %s, %s)"
    )
    for number, word in enumerate(("pending", "in_flight", "delivered", "failed")):
        outbox.sql(insert, str(number), word)
    with pytest.raises(psycopg.errors.CheckViolation, match="'sent' is not one of pending"):
        outbox.sql(insert, "5", "sent")

    words = outbox.sql("select status from core.outbox order by created_at, event_id")
    # What another program was trying waits for its first attempt here.
    assert [row["status"] for row in words] == ["pending", "pending", "delivered", "failed"]


# Producing


async def test_an_event_written_in_sql_is_handled_and_its_key_is_one_for_all(
    outbox: Outbox,
) -> None:
    """E-002, E-043"""
    homing, seen = outbox.homing(), list[Any]()

    @homing.on("invoice.paid")
    async def book(event: Any) -> None:
        seen.append((event.id, event.key, event.source, event.data, event.metadata))

    first = outbox.enqueue("k", source="shop", target="ledger")
    assert outbox.enqueue("k", source="shop") == first
    with pytest.raises(psycopg.errors.UniqueViolation, match="idempotency_key 'k'") as refused:
        outbox.sql("select core.outbox_enqueue('invoice.paid', '{\"n\": 2}', 'k', 'shop')")
    assert refused.value.sqlstate == "23505"
    async with homing:
        again = await homing.submit(Event("invoice.paid", {"n": 1.0}), key="k", source="shop")
        with pytest.raises(IdempotencyConflict):
            await homing.submit(Event("invoice.paid", {"n": 3}), key="k", source="shop")
        await work(homing)

    assert (again.delivery_id, again.created) == (first, False)
    assert seen == [(first, "k", "shop", {"n": 1}, {"target": "ledger"})]
    assert outbox.row(first)["status"] == "delivered"


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
        sql, python = [await homing.desk.show(id_) for id_ in (by_sql, ticket.delivery_id)]
        assert asdict(plain(sql)) == asdict(plain(python))
    own = "id, created_at_ms, updated_at_ms, due_at_ms"
    for table in ("homing_open", "homing_records"):
        one, other = outbox.sql(f"select * from {table} order by id")
        for name in (*own.split(", "), "record"):
            one.pop(name, None), other.pop(name, None)
        assert one == other


async def test_a_plain_insert_does_what_the_function_does(outbox: Outbox) -> None:
    """E-001, E-046"""
    homing, seen = outbox.homing(generation=2), list[Any]()
    homing.on("paid")(lambda event: seen.append(event.data))
    given = str(uuid4())
    insert = (
        "insert into core.outbox (event_id, event_type, payload, idempotency_key, source,"
        " generation) values (%s, 'paid', '[1]', 'k', 'shop', 2) returning event_id"
    )

    assert str(outbox.value(insert, given)) == given
    assert str(outbox.value(insert, uuid4())) == given
    async with homing:
        await work(homing)

    assert seen == [[1]]
    assert outbox.sql("select status, generation from core.outbox") == [
        {"status": "delivered", "generation": 2}
    ]


async def test_the_business_row_and_the_event_commit_together(outbox: Outbox) -> None:
    """E-006"""
    outbox.sql("create table if not exists invoices (number integer)")
    with outbox.undone():
        outbox.sql("insert into invoices values (1)")
        outbox.enqueue("lost")
    with outbox.connection.transaction():
        outbox.sql("insert into invoices values (2)")
        kept = outbox.enqueue("kept")

    assert outbox.value("select count(*) from invoices") == 1
    assert [str(row["event_id"]) for row in outbox.sql("select * from core.outbox")] == [kept]


@pytest.mark.parametrize(("is_mute", "poll_s"), [(False, 3600), (True, 0.2)])
async def test_an_event_wakes_a_worker_and_is_found_without_that(
    outbox: Outbox, *, is_mute: bool, poll_s: float
) -> None:
    """E-003"""
    homing = outbox.homing(worker=True)
    seen: asyncio.Queue[str] = asyncio.Queue()
    homing.on("invoice.paid")(lambda event: seen.put_nowait(event.key))
    homing.use_as_worker(adapt=lambda route: replace(route, poll_s=poll_s))

    async with homing, asyncio.timeout(20):
        # After the first one the worker has nothing to do, and waits.
        await asyncio.to_thread(outbox.enqueue, "first")
        assert await seen.get() == "first"
        with mute(outbox) if is_mute else nullcontext():
            await asyncio.to_thread(outbox.enqueue, "second")
        assert await seen.get() == "second"


async def test_a_replay_by_sql_wakes_a_worker(outbox: Outbox) -> None:
    """E-003, E-039"""
    homing = outbox.homing(worker=True)
    seen: asyncio.Queue[str] = asyncio.Queue()

    @homing.on("invoice.paid")
    async def book(event: Any) -> None:
        seen.put_nowait(event.id)
        raise TerminalHandlerError("no")

    homing.use_as_worker(adapt=lambda route: replace(route, poll_s=3600))
    async with homing, asyncio.timeout(20):
        event_id = await asyncio.to_thread(outbox.enqueue)
        assert await seen.get() == event_id
        while outbox.row(event_id)["status"] != "failed":  # noqa: ASYNC110 - no event for it
            await asyncio.sleep(0.01)
        await asyncio.to_thread(outbox.replay, event_id)
        assert await seen.get() == event_id


@pytest.mark.parametrize("is_kept", [True, False])
async def test_two_producers_of_one_key_make_one_event(outbox: Outbox, *, is_kept: bool) -> None:
    """E-002"""
    with psycopg.connect(outbox.url) as other:
        [first] = other.execute("select core.outbox_enqueue('paid', '[1]', 'k')").fetchone() or ()
        second = asyncio.ensure_future(
            asyncio.to_thread(outbox.value, "select core.outbox_enqueue('paid', '[1]', 'k')")
        )
        waiting = "select 1 from pg_locks where not granted"
        async with asyncio.timeout(20):
            while not other.execute(waiting).fetchall():  # noqa: ASYNC110 - no event for it
                await asyncio.sleep(0.01)
        if is_kept:
            other.commit()
        else:
            other.rollback()
        assert (await second == first) is is_kept
    assert len(outbox.sql("select * from core.outbox")) == 1


ENQUEUE = "select core.outbox_enqueue(%s, '{}', %s, %s, %s)"
INSERT = (
    "insert into core.outbox (event_type, payload, idempotency_key, source, target)"
    " values (%s, '{}', %s, %s, %s)"
)


@pytest.mark.parametrize(
    ("field", "values"),
    [
        ("event_type", ("", "x" * 513)),
        ("idempotency_key", ("", "x" * 513)),
        ("source", ("x" * 513,)),
        ("target", ("x" * 9000,)),
    ],
)
async def test_sql_refuses_what_python_refuses(
    outbox: Outbox, field: str, values: tuple[str, ...]
) -> None:
    """E-002"""
    good = {"event_type": "paid", "idempotency_key": "k", "source": "shop", "target": "ledger"}
    async with outbox.homing() as homing:
        for value in values:
            given = {**good, field: value}
            for statement in (ENQUEUE, INSERT):
                with pytest.raises(psycopg.errors.CheckViolation, match=f"{field}: must"):
                    outbox.sql(statement, *given.values())
            with pytest.raises(InvalidRequest):
                await homing.submit(
                    Event(given["event_type"]),
                    key=given["idempotency_key"],
                    source=given["source"],
                    metadata={"target": given["target"]},
                )
    assert outbox.sql("select * from core.outbox") == []


async def test_a_generation_is_a_bigint_everywhere(outbox: Outbox) -> None:
    """E-036, E-038"""
    largest = 2**63 - 1
    homing, seen = outbox.homing(generation=largest), list[str]()
    homing.on("paid")(lambda event: seen.append(event.key))
    outbox.enqueue("sql", "paid", generation=largest)
    async with homing:
        await homing.submit(Event("paid"), key="python", generation=largest)
        await work(homing)

    assert sorted(seen) == ["python", "sql"]
    assert outbox.sql("select distinct generation from core.outbox") == [{"generation": largest}]
    for wrong in (-1, largest + 1, "2", True):
        with pytest.raises(InvalidRequest, match="generation"):
            outbox.homing(generation=wrong)


def test_the_functions_have_the_promised_arguments(outbox: Outbox) -> None:
    """E-032, E-037"""
    found = outbox.sql(
        "select proname, pg_get_function_arguments(oid) as given,"
        " pg_get_function_result(oid) as returned from pg_proc"
        " where proname in ('outbox_enqueue', 'outbox_replay') order by proname"
    )

    enqueue = (
        "p_event_type text, p_payload jsonb, p_idempotency_key text,"
        " p_source text DEFAULT 'sql'::text, p_target text DEFAULT NULL::text,"
        " p_generation bigint DEFAULT 0"
    )
    replaying = "event_id uuid, p_new_generation bigint, p_replayed_by text"
    assert [tuple(row.values()) for row in found] == [
        ("outbox_enqueue", enqueue, "uuid"),
        ("outbox_replay", replaying, "void"),
    ]


@contextmanager
def mute(outbox: Outbox) -> Iterator[None]:
    """The server's `pg_notify` is hidden by one that does nothing."""
    outbox.sql("create schema mute")
    outbox.sql("create function mute.pg_notify(text, text) returns void language sql as ''")
    put = outbox.value("select oid::regprocedure::text from pg_proc where proname = 'homing_put'")
    outbox.sql(f"alter function {put} set search_path = mute, public, pg_catalog, pg_temp")
    try:
        yield
    finally:
        outbox.sql(f"alter function {put} set search_path = public, pg_temp")
        outbox.sql("drop schema mute cascade")


TEXT = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=8)
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    # A whole float from 2**53 on is another number in JSON, which names its shortest digits.
    | st.floats(allow_nan=False, allow_infinity=False).filter(
        lambda number: not 2**53 <= abs(number) <= 2**64
    )
    | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=8,
)
TYPES = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=8)


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=JSON, event_type=TYPES, generation=st.integers(0, 3))
def test_sql_makes_the_lane_and_the_fingerprint_of_python(
    outbox: Outbox, data: Any, event_type: str, generation: int
) -> None:
    """E-002"""
    [new] = prepared(Event(event_type, data), generation)
    found = outbox.sql(
        "select core.homing_lane(%s, %s) as lane, core.homing_fingerprint(%s, %s) as fingerprint,"
        " core.homing_event(%s, %s, false) as payload",
        *(event_type, generation),
        *(event_type, Jsonb(data), event_type, Jsonb(data)),
    )

    assert (found[0]["lane"], found[0]["fingerprint"]) == (
        new.delivery.lane,
        new.delivery.fingerprint,
    )
    read = msgspec.json.decode(found[0]["payload"])
    assert read.get("data") == msgspec.json.decode(new.payload).get("data")


def prepared(event: Event, generation: int) -> list[Any]:
    homing = Homing("memory:", worker=False)
    process = homing._made_engine().process
    [route] = homing._all_routes()
    return prepare(process, [(route, Request(message=event, generation=generation))])


# Reading


async def test_the_view_shows_what_the_shape_says(outbox: Outbox, clock: ManualClock) -> None:
    """E-005, E-030, E-058"""
    homing = outbox.homing(clock=clock)
    homing.on("good")(failing(ConnectionError("one")))
    homing.on("bad")(failing(*[ConnectionError(str(number)) for number in range(9)]))
    homing.on("void")(failing(TerminalHandlerError("no"), TerminalHandlerError("no")))
    homing.on("two", name="first")(failing())
    homing.on("two", name="second")(failing(TerminalHandlerError("no")))
    homing.use_as_worker(adapt=as_outbox)
    homing.use_without_worker()

    async with homing:
        tickets = [
            await homing.submit(
                Event(kind, {"é": [1, 2.5, None]}), key=key, metadata={"target": "t"}
            )
            for kind, key in (
                ("good", "a"),
                ("bad", "b"),
                ("void", "c"),
                ("two", "d"),
                ("void", "e"),
            )
        ]
        tickets.append(await homing.submit(Event("nobody"), key="f", source="shop"))
        ids = [ticket.delivery_id for ticket in tickets]
        await work(homing)
        seen = [as_shape(outbox.row(event_id)) for event_id in ids]
        assert seen == [SHAPE.record(await stored(homing, event_id)) for event_id in ids]
        first_failed_at = seen[1]["first_failed_at"]
        await work_until_failed(homing, clock)
        await replay(homing.desk, ids[2], new_generation=0, replayed_by="ann")
        await homing.desk.dismiss(ids[4], actor="ann", reason="known")
        seen = [as_shape(outbox.row(event_id)) for event_id in ids]
        assert seen == [SHAPE.record(await stored(homing, event_id)) for event_id in ids]

    words = ["delivered", "failed", "pending", "failed", "failed", "pending"]
    assert [row["status"] for row in seen] == words
    assert (seen[1]["attempts"], seen[1]["failure_history"]) == (5, [])
    assert seen[1]["first_failed_at"] == first_failed_at is not None
    dead = outbox.sql(
        "select event_id from core.outbox where status = 'failed' and deleted_at is null"
    )
    assert {str(row["event_id"]) for row in dead} == {ids[1], ids[3]}
    assert outbox.value("select count(*) from core.outbox") == len(ids)


# Replay


async def failed_event(
    outbox: Outbox, clock: ManualClock, kind: str = "void", generation: int = 0
) -> str:
    homing = outbox.homing(clock=clock, generation=generation)
    homing.on("void", name="void")(failing(*[TerminalHandlerError("no such invoice")] * 9))
    homing.on("two", name="first")(failing())
    homing.on("two", name="second")(failing(*[TerminalHandlerError("no")] * 9))
    async with homing:
        event_id = outbox.enqueue(f"k{uuid4()}", kind, generation=generation)
        clock.advance(1000)
        await work(homing)
    assert outbox.row(event_id)["status"] == "failed"
    return event_id


@pytest.mark.parametrize("kind", ["void", "two"])
async def test_the_function_and_the_transition_give_the_same_rows(
    outbox: Outbox, clock: ManualClock, kind: str
) -> None:
    """E-032, E-034, E-039"""
    by_sql = await failed_event(outbox, clock, kind, generation=2)
    by_python = await failed_event(outbox, clock, kind, generation=2)
    for _ in range(2):
        async with outbox.homing(clock=clock, generation=2) as homing:
            outbox.replay(by_sql, 2, "ann@example.org")
            await replay(homing.desk, by_python, new_generation=2, replayed_by="ann@example.org")
            sql, python = [
                [plain(each) for each in await family(homing, event_id)]
                for event_id in (by_sql, by_python)
            ]
            for one, other in zip(sql, python, strict=True):
                assert asdict(one) == asdict(other)
            assert {each.state for each in sql} <= {"pending", "delivered"}
        await fail_again(outbox, clock)


async def family(homing: Homing, event_id: str) -> list[Delivery]:
    children = (await homing.desk.list(Query(parent_id=event_id))).items
    return [
        await homing.desk.show(event_id),
        *sorted(children, key=lambda child: child.metadata["handler"]),
    ]


def plain(delivery: Delivery) -> Delivery:
    """Without what must differ between two events."""
    times = {"created_at_ms": 0, "updated_at_ms": 0, "due_at_ms": 0, "ended_at_ms": None}
    history = tuple(
        replace(cycle, replayed_at_ms=0, failed_at_ms=0, first_failed_at_ms=0)
        for cycle in delivery.failure_history
    )
    identity = {"id": "", "key": "", "parent_id": None, "version": 0, "receipt": None}
    return replace(delivery, **times, **identity, failure_history=history)


async def fail_again(outbox: Outbox, clock: ManualClock) -> None:
    homing = outbox.homing(clock=clock, generation=2)
    homing.on("void", name="void")(failing(*[TerminalHandlerError("again")] * 9))
    homing.on("two", name="first")(failing())
    homing.on("two", name="second")(failing(*[TerminalHandlerError("again")] * 9))
    async with homing:
        clock.advance(10_000)
        await work(homing)


async def test_a_replay_by_sql_is_one_step(outbox: Outbox, clock: ManualClock) -> None:
    """E-033, E-035, E-036"""
    event_id = await failed_event(outbox, clock, generation=3)
    before = outbox.row(event_id)
    with outbox.undone():
        outbox.replay(event_id, 4)
        assert outbox.row(event_id)["status"] == "pending"
    assert outbox.row(event_id) == before

    outbox.replay(event_id, 4)

    after = outbox.row(event_id)
    cycle = ("attempts", "last_error", "first_failed_at", "status", "generation")
    assert [before[name] for name in cycle[:2]] == [1, "TerminalHandlerError: no such invoice"]
    assert [after[name] for name in cycle] == [0, None, None, "pending", 4]
    same = ("event_id", "idempotency_key", "payload", "created_at")
    assert {name: after[name] for name in same} == {name: before[name] for name in same}


@pytest.mark.parametrize("who", ["ann@example.org", "sql-direct"])
async def test_the_history_stands_on_the_row_with_who_replayed(
    outbox: Outbox, clock: ManualClock, who: str
) -> None:
    """E-040, E-041, E-042"""
    event_id = await failed_event(outbox, clock)
    rows = outbox.value("select count(*) from core.outbox")

    outbox.replay(event_id, 0, who)

    [entry] = outbox.row(event_id)["failure_history"]
    cycle = msgspec.convert(entry, FailureCycle)
    assert set(entry) == set(FailureCycle.__struct_fields__)
    assert (cycle.cycle, cycle.attempts, cycle.replayed_by) == (1, 1, who)
    assert cycle.last_error == "TerminalHandlerError: no such invoice"
    assert None not in (cycle.first_failed_at, cycle.failed_at)
    assert outbox.value("select count(*) from core.outbox") == rows


@pytest.mark.parametrize("kind", ["void", "two"])
async def test_a_replay_that_fails_half_way_changes_nothing(
    outbox: Outbox, clock: ManualClock, kind: str
) -> None:
    """E-033"""
    event_id = await failed_event(outbox, clock, kind)
    before = contents(outbox)
    # The last step of the last row that is replayed.
    outbox.sql(
        "create function refuse() returns trigger language plpgsql as"
        f" $$begin if new.key like '{event_id}%%' then raise 'refused'; end if; return new; end$$"
    )
    outbox.sql(
        "create trigger refuse before insert on homing_facts for each row execute function refuse()"
    )
    try:
        with pytest.raises(psycopg.errors.RaiseException, match="refused"):
            outbox.replay(event_id, 1)
    finally:
        outbox.sql("drop trigger refuse on homing_facts")
        outbox.sql("drop function refuse()")

    assert contents(outbox) == before
    outbox.replay(event_id, 1)
    assert outbox.row(event_id)["status"] == "pending"


def contents(outbox: Outbox) -> list[list[dict[str, Any]]]:
    """Every row that a replay could change."""
    tables = ("homing_open", "homing_ended", "homing_records", "homing_facts", "homing_keys")
    return [outbox.sql(f"select t.* from {name} as t order by t::text") for name in tables]


async def test_a_handler_sees_the_same_identity_after_a_replay(
    outbox: Outbox, clock: ManualClock
) -> None:
    """E-043"""
    homing, seen = outbox.homing(clock=clock), list[tuple[str, str]]()

    @homing.on("paid")
    async def book(event: Any) -> None:
        seen.append((event.id, event.key))
        if len(seen) == 1:
            raise TerminalHandlerError("not yet")

    async with homing:
        event_id = outbox.enqueue("k", "paid")
        await work(homing)
        outbox.replay(event_id, 0)
        await work(homing)

    assert seen == [(event_id, "k")] * 2
    assert outbox.row(event_id)["idempotency_key"] == "k"


async def test_a_wait_survives_the_end_of_the_process(outbox: Outbox, clock: ManualClock) -> None:
    """E-065"""
    event_id = outbox.enqueue("k", "paid")
    homing = outbox.homing(clock=clock)
    homing.on("paid")(failing(ConnectionError("refused")))
    async with homing:
        await work(homing)
        due_at_ms = (await homing.desk.show(event_id)).due_at_ms
    assert due_at_ms is not None

    homing, seen = outbox.homing(clock=clock), list[int]()
    homing.on("paid")(lambda event: seen.append(clock.now_ms()))
    async with homing:
        clock.advance((due_at_ms - clock.now_ms() - 1) / 1000)
        await work(homing)
        assert seen == []
        clock.advance(0.001)
        await work(homing)
    assert seen == [due_at_ms]


async def test_a_replay_adds_no_row_and_needs_no_log(outbox: Outbox, clock: ManualClock) -> None:
    """E-006, E-059, E-060"""
    event_id = await failed_event(outbox, clock)
    outbox.replay(event_id)
    outbox.sql("truncate homing_attempts")
    outbox.sql("delete from homing_facts where kind = 'audit'")

    assert outbox.value("select count(*) from core.outbox") == 1
    assert outbox.row(event_id)["failure_history"][0]["attempts"] == 1


async def test_only_a_failed_row_is_replayed_and_by_a_stated_generation(
    outbox: Outbox, clock: ManualClock
) -> None:
    """E-037, E-044"""
    failed = await failed_event(outbox, clock, generation=2)
    in_flight = await claimed_event(outbox, clock)
    pending, delivered, deleted = (outbox.enqueue(key) for key in "abc")
    for event_id, word in ((delivered, "delivered"), (deleted, "failed")):
        outbox.sql("delete from homing_open where id = %s", event_id)
        outbox.sql("delete from homing_records where id = %s", event_id)
        outbox.sql("delete from homing_keys where delivery_id = %s", event_id)
        outbox.sql(
            "insert into core.outbox (event_id, event_type, payload, idempotency_key, status)"
            " values (%s, 'paid', '{}', %s, %s)",
            *(event_id, event_id, word),
        )
    outbox.sql("update core.outbox set deleted_at = now() where event_id = %s", deleted)
    refused = {
        pending: "is pending",
        in_flight: "is in_flight",
        delivered: "is delivered",
        deleted: "is deleted",
        str(uuid4()): "there is no event",
    }

    before = contents(outbox)
    for event_id, problem in refused.items():
        with pytest.raises(psycopg.Error, match=problem):
            outbox.replay(event_id, 5)
    with pytest.raises(psycopg.errors.UndefinedFunction):
        outbox.sql("select core.outbox_replay(%s, 'ann')", failed)
    with pytest.raises(psycopg.Error, match="state the generation"):
        outbox.sql("select core.outbox_replay(%s, null, 'ann')", failed)
    with pytest.raises(psycopg.Error, match="of generation 2: state that one or a later one"):
        outbox.replay(failed, 1)
    async with outbox.homing() as homing:
        with pytest.raises(InvalidRequest, match="of generation 2: state that one or a later one"):
            await replay(homing.desk, failed, new_generation=1, replayed_by="ann")
        for event_id in (pending, in_flight, delivered, deleted):
            with pytest.raises(NotAllowed):
                await replay(homing.desk, event_id, new_generation=5, replayed_by="ann")
    assert contents(outbox)[:3] == before[:3]


async def claimed_event(outbox: Outbox, clock: ManualClock) -> str:
    """A worker has it."""
    event_id = outbox.enqueue("held", "held")
    now_ms = clock.now_ms()
    claim = Claim(
        worker="w", now_ms=now_ms, lease_until_ms=now_ms + 60_000, limit=1, lanes=("events/held",)
    )
    async with outbox.homing(clock=clock) as homing:
        [claimed] = await homing.store.claim(claim)
    assert (claimed.delivery.id, outbox.row(event_id)["status"]) == (event_id, "in_flight")
    return event_id


async def test_two_replays_at_the_same_moment_give_one_cycle(
    outbox: Outbox, clock: ManualClock
) -> None:
    """E-045"""
    event_id = await failed_event(outbox, clock)

    def replay_once(who: str) -> bool:
        with psycopg.connect(outbox.url) as connection:
            try:
                connection.execute("select core.outbox_replay(%s, 0, %s)", (event_id, who))
            except psycopg.errors.ObjectNotInPrerequisiteState:
                return False
            return True

    with ThreadPoolExecutor(4) as threads:
        done = list(threads.map(replay_once, "abcd"))

    assert sorted(done) == [False, False, False, True]
    assert len(outbox.row(event_id)["failure_history"]) == 1


async def test_a_generation_is_left_to_its_own_code(outbox: Outbox, clock: ManualClock) -> None:
    """E-036, E-038"""
    event_id = await failed_event(outbox, clock, generation=3)
    homing, seen = outbox.homing(clock=clock, generation=4), list[str]()
    homing.on("void")(lambda event: seen.append(event.id))

    async with homing:
        outbox.replay(event_id, 3)
        clock.advance(10_000_000)
        await work(homing)
        assert seen == []
    await fail_again_in(outbox, clock, generation=3)
    outbox.replay(event_id, 4)
    homing = outbox.homing(clock=clock, generation=4)
    homing.on("void")(lambda event: seen.append(event.id))
    async with homing:
        clock.advance(10_000_000)
        await work(homing)
    assert seen == [event_id]


async def fail_again_in(outbox: Outbox, clock: ManualClock, generation: int) -> None:
    homing = outbox.homing(clock=clock, generation=generation)
    homing.on("void")(failing(TerminalHandlerError("old code")))
    async with homing:
        await work(homing)


async def test_a_thousand_replays_and_what_they_take(outbox: Outbox, clock: ManualClock) -> None:
    """E-061"""
    event_id = await failed_event(outbox, clock)
    outbox.replay(event_id)
    entry = json.dumps(
        json.loads(outbox.value("select record from homing_records where id = %s", event_id))[
            "failure_history"
        ][0]
    )
    outbox.sql(
        "update homing_records set record = (record::jsonb || jsonb_build_object("
        "'failure_history', (select jsonb_agg(%s::jsonb) from generate_series(1, 999))))::text"
        " where id = %s",
        *(entry, event_id),
    )
    clock.advance(100_000_000)
    homing = outbox.homing(clock=clock)
    homing.on("void")(failing(TerminalHandlerError("again")))
    async with homing:
        await work(homing)
    outbox.replay(event_id)

    [size] = outbox.sql("select * from core.outbox_failure_history_size")
    assert (str(size["event_id"]), size["entries"]) == (event_id, 1000)
    assert size["bytes"] > 100_000
    assert len(outbox.row(event_id)["failure_history"]) == 1000


# Deleting, and statements that are refused


async def test_setting_deleted_at_dismisses(outbox: Outbox, clock: ManualClock) -> None:
    """E-005, E-046"""
    event_id = await failed_event(outbox, clock)
    async with outbox.homing(clock=clock) as homing:
        outbox.sql("update core.outbox set deleted_at = now() where event_id = %s", event_id)
        assert (await homing.desk.show(event_id)).state == "dismissed"
        assert (
            outbox.sql("select * from core.outbox where status = 'failed' and deleted_at is null")
            == []
        )
        outbox.sql("update core.outbox set deleted_at = null where event_id = %s", event_id)
        assert (await homing.desk.show(event_id)).state == "failed"
    pending = outbox.enqueue("pending")
    for statement, problem in (
        ("update core.outbox set deleted_at = now() where event_id = %s", "only a failed one"),
        ("update core.outbox set status = 'failed' where event_id = %s", "cannot become failed"),
        ("update core.outbox set payload = '{}' where event_id = %s", "only deleted_at can be"),
        ("delete from core.outbox where event_id = %s", "set deleted_at"),
    ):
        with pytest.raises(psycopg.Error, match=problem):
            outbox.sql(statement, pending)
    assert outbox.row(pending)["status"] == "pending"


async def test_one_that_was_deleted_unhandled_is_a_dead_letter_once_that_is_taken_back(
    outbox: Outbox,
) -> None:
    """E-005, E-046"""
    homing, seen = outbox.homing(), list[str]()
    homing.on("invoice.paid")(lambda event: seen.append(event.key))
    insert = (
        "insert into core.outbox (event_type, payload, idempotency_key, deleted_at)"
        " values ('invoice.paid', '{}', 'adopted', now()) returning event_id"
    )
    adopted, cancelled = outbox.value(insert), outbox.enqueue("cancelled")
    async with homing:
        await homing.desk.cancel(cancelled, actor="ann", reason="not needed")
        await work(homing)
        assert seen == []
        for event_id in (str(adopted), cancelled):
            outbox.sql("update core.outbox set deleted_at = null where event_id = %s", event_id)
            found = await homing.desk.show(event_id)
            assert (found.state, found.failed_because) == ("failed", "rejected")
            outbox.replay(event_id)
        await work(homing)
    assert sorted(seen) == ["adopted", "cancelled"]


def test_a_plain_insert_returns_the_row(outbox: Outbox) -> None:
    """E-027"""
    [returned] = outbox.sql(
        "insert into core.outbox (event_type, payload, idempotency_key)"
        " values ('paid', '[1]', 'k') returning *"
    )

    assert returned == outbox.row(returned["event_id"])


# Migrations


OLD_TABLE = """
create schema core;
create table core.outbox (
    event_id uuid primary key, event_type text not null, payload jsonb not null,
    idempotency_key text not null unique, source text not null, target text,
    status text not null, generation bigint not null default 0,
    created_at timestamptz not null default now(), deleted_at timestamptz
);
create table core.event_handled (
    event_id uuid, handler_name text, idempotency_key text, handled_at timestamptz default now(),
    primary key (event_id, handler_name)
);
create role producer;
grant usage on schema core to producer;
grant insert, select on core.outbox to producer;
insert into core.outbox (event_id, event_type, payload, idempotency_key, source, target, status)
select gen_random_uuid(), 'paid', '{"n": 1}', word, 'shop', 'ledger', word
from unnest(array['pending', 'in_flight', 'delivered', 'failed']) as word;
insert into core.event_handled (event_id, handler_name, idempotency_key)
select event_id, 'book', idempotency_key from core.outbox where status = 'pending';
"""


@pytest.fixture
def old_outbox(empty_database: str) -> Iterator[Outbox]:
    with psycopg.connect(empty_database, autocommit=True) as connection:
        connection.execute(OLD_TABLE)
        yield Outbox(empty_database, connection)
        connection.execute("drop owned by producer; drop role producer")


async def test_a_table_from_elsewhere_is_adopted_with_its_rows(old_outbox: Outbox) -> None:
    """E-028, E-031"""
    before = old_outbox.sql("select * from core.outbox order by idempotency_key")
    store = PostgresStore(old_outbox.url)
    store.add_sql_files("events", PACKAGE)
    await store.open()
    await store.close()

    after = old_outbox.sql("select * from core.outbox order by idempotency_key")
    kept = [{name: row[name] for name in before[0] if name != "created_at"} for row in after]
    for row in before:
        del row["created_at"]
        row["status"] = "pending" if row["status"] == "in_flight" else row["status"]
    assert kept == before
    gained = [(row["attempts"], row["last_error"] or None, row["failure_history"]) for row in after]
    assert gained[0] == (0, None, [])
    again = (files(PACKAGE) / "20260425014302_core_outbox_failure_history.sql").read_text()
    old_outbox.sql(again)
    assert old_outbox.sql("select * from core.outbox order by idempotency_key") == after

    homing, seen = old_outbox.homing(), list[str]()
    homing.on("paid", name="book")(lambda event: seen.append(event.key))
    async with homing:
        await work(homing)
        [failed] = [row for row in after if row["status"] == "failed"]
        old_outbox.replay(failed["event_id"])
        await work(homing)
    # The pending one was handled already.
    assert seen == ["in_flight", "failed"]
    old_outbox.sql("set role producer")
    assert old_outbox.sql("select distinct status from core.outbox") == [{"status": "delivered"}]
    old_outbox.sql(
        "insert into core.outbox (event_id, event_type, payload, idempotency_key, source)"
        " values (gen_random_uuid(), 'paid', '{}', 'new', 'shop')"
    )
    old_outbox.sql("reset role")
