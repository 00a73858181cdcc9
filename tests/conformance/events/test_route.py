"""The event outbox (002): the curve, the classifier, generations, replay in place, alerts."""

from __future__ import annotations

import random
import re
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from uuid import uuid4

import asyncpg
import django.db
import msgspec
import psycopg
import pydantic
import pytest
import sqlalchemy.exc

import homing_systems.events
from homing import Event, Homing
from homing.domain.delivery import Fact
from homing.domain.errors import IdempotencyConflict, InvalidRequest, NotAllowed, NotFound
from homing.domain.failure import Failure
from homing.engine.process.engine import Engine
from homing.engine.work.function_step import HandlerCall
from homing.engine.work.handlers import Handlers
from homing.observers.prometheus import PrometheusMetrics
from homing.ports import Facet, Query, Transitioned
from homing.stores.memory import MemoryStore
from homing.testing.clocks import ManualClock
from homing.testing.random_numbers import SeededRandom
from homing_systems.events import (
    DEFAULT_RETRY_POLICY,
    FailureCycle,
    RetryPolicy,
    TerminalHandlerError,
)
from homing_systems.events import dead_letters as tools
from homing_systems.events.record import LAYOUT, alert_fields
from homing_systems.events.route import EventFields, events_route, replay, request_for
from tests.conformance.events.outbox import Bell
from tests.conformance.world import Listener, World, elapsed_s

ROOT = Path(__file__).parents[3]
DAY_S = 24 * 3600.0
PAID = EventFields(
    event_id="018f0000-0000-7000-8000-000000000001",
    event_type="invoice.paid",
    payload={"invoice": 42},
    source="billing",
    target="ledger",
    idempotency_key="invoice-42",
)


class Handler:
    """Raises what it is told to, in turn; then it works."""

    def __init__(self, clock: ManualClock, *errors: Exception) -> None:
        self._clock = clock
        self._errors = list(errors)
        self.events: list[HandlerCall] = []
        self.called_at_s: list[float] = []

    async def __call__(self, event: HandlerCall) -> None:
        self.events.append(event)
        self.called_at_s.append(elapsed_s(self._clock))
        if self._errors:
            raise self._errors.pop(0)

    def fail_with(self, *errors: Exception) -> None:
        self._errors += errors


class Events(World):
    def __init__(
        self,
        clock: ManualClock,
        *subscriptions: dict[str, Any],
        generation: int = 0,
        store: MemoryStore | None = None,
    ) -> None:
        self.alerts = Listener("alert")
        handlers = Handlers()
        for given in subscriptions:
            handlers.add(**given)
        store = store or MemoryStore()
        route = events_route(handlers, generation=generation, store=store)
        super().__init__(route, clock, notifiers=[self.alerts], store=store)

    async def publish(self, **changes: Any) -> str:
        fields = msgspec.structs.replace(PAID, **changes)
        return (await self.submit(request_for(fields))).delivery_id


def on_paid(handler: Handler, **fields: Any) -> dict[str, Any]:
    return {"event_type": "invoice.paid", "name": "book_revenue", "function": handler, **fields}


def on_sent(handler: Handler) -> dict[str, Any]:
    return {"event_type": "invoice.sent", "name": "file_it", "function": handler}


def flaky(times: int) -> list[Exception]:
    return [ConnectionError("refused") for _ in range(times)]


async def test_a_transient_error_is_tried_five_times_under_a_doubling_ceiling(
    clock: ManualClock,
) -> None:
    """E-008, E-012, E-014"""
    handler = Handler(clock, *flaky(9))
    world = Events(clock, on_paid(handler))

    event_id = await world.publish()
    await world.work_for(DAY_S)

    # Every roll is a half: 0.5, 1, 2 and 4 s.
    assert handler.called_at_s == [0.0, 0.5, 1.5, 3.5, 7.5]
    assert await world.word(event_id) == "failed"
    assert (await world.get(event_id)).failed_because == "exhausted"


def test_the_ceilings_double_to_five_minutes() -> None:
    """E-007, E-009, E-011"""
    schedule = DEFAULT_RETRY_POLICY.retry.schedule

    ceilings_s = [schedule.ceiling_s(attempt) for attempt in range(2, 13)]

    assert ceilings_s == [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300]
    assert DEFAULT_RETRY_POLICY.max_attempts == 5


def test_the_jitter_is_full_and_drawn_for_each_attempt() -> None:
    """E-010"""
    retry, rng = DEFAULT_RETRY_POLICY.retry, SeededRandom(7)
    failure = Failure("transient")

    delays_ms = [retry.delay_ms(4, failure, rng.roll()) for _ in range(10_000)]

    assert 0 <= min(delays_ms) < 40
    assert 3_960 < max(delays_ms) <= 4_000
    assert 1_950 < sum(delays_ms) / len(delays_ms) < 2_050
    quarters = [
        sum(low <= delay < low + 1_000 for delay in delays_ms) for low in range(0, 4_000, 1_000)
    ]
    assert all(2_300 < number < 2_700 for number in quarters)


async def test_two_events_that_fail_together_are_tried_at_different_times() -> None:
    """E-010"""
    homing = Homing("memory:", worker=False, clock=ManualClock())
    homing.on("invoice.paid")(always_refused)
    async with homing:
        for number in range(20):
            await homing.submit(Event("invoice.paid"), key=str(number))
        await homing.engine.run_until_idle()
        waiting = (await homing.store.page(Query(facets=(Facet(state="pending"),)))).items

    assert len(waiting) == 20
    assert len({delivery.due_at_ms for delivery in waiting}) > 10


async def always_refused(event: object) -> None:
    raise ConnectionError("refused")


async def test_a_handler_may_have_a_policy_of_its_own(clock: ManualClock) -> None:
    """E-013"""
    mine, other = Handler(clock, *flaky(2)), Handler(clock, *flaky(5))
    world = Events(
        clock,
        on_paid(mine, retry=RetryPolicy(base_delay_s=10, max_attempts=2).retry),
        on_sent(other),
    )

    await world.publish()
    await world.publish(event_id="e2", event_type="invoice.sent", idempotency_key="2")
    await world.work_for(DAY_S)

    assert mine.called_at_s == [0.0, 5.0]
    assert other.called_at_s == [0.0, 0.5, 1.5, 3.5, 7.5]


@pytest.mark.parametrize(
    "error", [KeyError("no account"), ZeroDivisionError("rate"), sqlite3.IntegrityError("unique")]
)
async def test_a_handlers_terminal_errors_come_on_top_of_the_default_ones(
    clock: ManualClock, error: Exception
) -> None:
    """E-024, E-025, E-063"""
    mine, other = Handler(clock, error), Handler(clock, KeyError("no account"))
    policy = RetryPolicy(terminal_errors=(LookupError,))
    world = Events(
        clock,
        on_paid(
            mine,
            terminal_errors=(*policy.terminal_errors, ZeroDivisionError),
        ),
        on_sent(other),
    )

    failed = await world.publish()
    retried = await world.publish(event_id="e2", event_type="invoice.sent", idempotency_key="2")
    await world.work_for(DAY_S)

    assert (len(mine.events), await world.word(failed)) == (1, "failed")
    assert (len(other.events), await world.word(retried)) == (2, "delivered")


class Refund(TerminalHandlerError):
    pass


class UniqueViolation(sqlite3.IntegrityError):
    pass


def pydantic_error() -> Exception:
    class Amount(pydantic.BaseModel):
        euros: int

    with pytest.raises(pydantic.ValidationError) as caught:
        Amount.model_validate({"euros": "many"})
    return caught.value


@pytest.mark.parametrize(
    "error",
    [
        sqlite3.IntegrityError("unique"),
        UniqueViolation("id"),
        psycopg.errors.UniqueViolation("psycopg"),
        asyncpg.UniqueViolationError("asyncpg"),
        sqlalchemy.exc.IntegrityError("insert", {}, Exception("sqlalchemy")),
        django.db.IntegrityError("django"),
        Refund("void"),
    ],
    ids=lambda error: type(error).__module__,
)
async def test_a_terminal_error_ends_it_at_once(clock: ManualClock, error: Exception) -> None:
    """E-016, E-019, E-026"""
    handler = Handler(clock, error)
    world = Events(clock, on_paid(handler))

    event_id = await world.publish()
    await world.work_for(DAY_S)

    assert len(handler.events) == 1
    assert (await world.get(event_id)).failed_because == "rejected"


@pytest.mark.parametrize("is_in_validation", [True, False])
async def test_pydantics_error_is_terminal_wherever_it_is_raised(
    clock: ManualClock, *, is_in_validation: bool
) -> None:
    """E-018"""
    handler, error = Handler(clock), pydantic_error()

    def refuse(payload: object) -> None:
        raise error

    if is_in_validation:
        world = Events(clock, on_paid(handler, validate=refuse))
    else:
        handler.fail_with(error)
        world = Events(clock, on_paid(handler))
    event_id = await world.publish()
    await world.work_for(DAY_S)

    assert len(handler.events) == (0 if is_in_validation else 1)
    found = await world.get(event_id)
    assert (found.state, found.attempts_spent) == ("failed", 1)


@pytest.mark.parametrize("error", [ConnectionResetError("reset"), TimeoutError("slow")])
async def test_a_connection_error_and_a_timeout_are_transient(
    clock: ManualClock, error: Exception
) -> None:
    """E-020, E-021"""
    await is_retried(clock, error)


@pytest.mark.parametrize(
    "error",
    [
        sqlite3.OperationalError("locked"),
        ValueError("in the handler, not in the validation"),
        RuntimeError("unknown"),
    ],
)
async def test_any_other_error_is_transient(clock: ManualClock, error: Exception) -> None:
    """E-017, E-022, E-023"""
    await is_retried(clock, error)


async def is_retried(clock: ManualClock, error: Exception) -> None:
    handler = Handler(clock, error)
    world = Events(clock, on_paid(handler))

    event_id = await world.publish()
    await world.work_for(DAY_S)

    assert handler.called_at_s == [0.0, 0.5]
    assert await world.word(event_id) == "delivered"


async def test_a_value_error_in_the_validation_is_terminal(clock: ManualClock) -> None:
    """E-017, X-19"""
    handler = Handler(clock)

    validated: list[Any] = []

    def validate(payload: Any) -> Any:
        validated.append(payload)
        if "invoice" not in payload:
            raise ValueError("no invoice")
        return payload["invoice"]

    world = Events(clock, on_paid(handler, validate=validate))

    bad = await world.publish(payload={})
    good = await world.publish(event_id="good", idempotency_key="good")
    await world.work_for(DAY_S)

    assert await world.word(bad) == "failed"
    assert await world.word(good) == "delivered"
    assert [event.data for event in handler.events] == [42]
    assert len(validated) == 2


async def test_a_replay_keeps_the_old_cycle_on_the_row(clock: ManualClock) -> None:
    """E-034, E-035, E-042"""
    handler = Handler(clock, *flaky(6))
    world = Events(clock, on_paid(handler))
    event_id = await world.publish()
    await world.work_for(60)
    before = LAYOUT.record(await world.stored(event_id))
    assert before is not None
    assert (before["attempts"], before["failure_history"]) == (5, [])

    await replay(world.ops, event_id, new_generation=0, replayed_by="ops@example.org")

    row = LAYOUT.record(await world.stored(event_id))
    assert row is not None
    assert [row[n] for n in ("status", "attempts", "last_error", "first_failed_at")] == [
        "pending",
        0,
        None,
        None,
    ]
    assert row["failure_history"] == [
        {
            "cycle": 1,
            "attempts": 5,
            "last_error": "ConnectionError: refused",
            "first_failed_at": "2026-02-23T10:00:00.000Z",
            "failed_at": "2026-02-23T10:00:07.500Z",
            "generation": 0,
            "replayed_at": "2026-02-23T10:01:00.000Z",
            "replayed_by": "ops@example.org",
        }
    ]
    assert row["event_id"] == before["event_id"]
    assert row["idempotency_key"] == before["idempotency_key"]
    await world.work_for(60)
    assert handler.called_at_s[5:] == [60.0, 60.5]
    assert await world.word(event_id) == "delivered"


def test_a_cycle_written_by_newer_code_is_still_read() -> None:
    """E-041"""
    older = FailureCycle(
        cycle=1,
        attempts=5,
        last_error=None,
        first_failed_at=None,
        failed_at=None,
        generation=3,
        replayed_at="2026-02-23T10:01:00.000Z",
        replayed_by="sql-direct",
    )
    newer = msgspec.to_builtins(older) | {"gained": True}

    assert msgspec.convert(newer, FailureCycle) == older


async def test_replay_needs_a_failed_row_and_a_generation(clock: ManualClock) -> None:
    """E-037, E-044"""
    handler = Handler(clock, Refund("void"), *flaky(1))
    world = Events(clock, on_paid(handler))
    failed = await world.publish()
    await world.work()
    pending = await world.publish(event_id="p", idempotency_key="p")
    await world.work()
    assert await world.word(pending) == "pending"

    with pytest.raises(TypeError, match="new_generation"):
        await replay(world.ops, failed, replayed_by="sql-direct")  # type: ignore[call-arg]
    with pytest.raises(NotAllowed):
        await replay(world.ops, pending, new_generation=1, replayed_by="sql-direct")
    with pytest.raises(NotFound):
        await replay(world.ops, "missing", new_generation=1, replayed_by="sql-direct")
    await world.work_for(10)
    with pytest.raises(NotAllowed):
        await replay(world.ops, pending, new_generation=1, replayed_by="sql-direct")
    await world.ops.dismiss(failed, actor="ops", reason="known")
    with pytest.raises(NotAllowed):
        await replay(world.ops, failed, new_generation=1, replayed_by="sql-direct")


async def test_two_replays_give_one_new_cycle(clock: ManualClock) -> None:
    """E-045"""
    world = Events(clock, on_paid(Handler(clock, Refund("void"))))
    event_id = await world.publish()
    await world.work()

    await replay(world.ops, event_id, new_generation=1, replayed_by="one")
    with pytest.raises(NotAllowed):
        await replay(world.ops, event_id, new_generation=1, replayed_by="two")

    assert len((await world.get(event_id)).failure_history) == 1


async def test_an_event_stays_with_its_generation_until_it_is_replayed(
    clock: ManualClock,
) -> None:
    """E-036, E-038"""
    old, new = Handler(clock, Refund("old code")), Handler(clock)
    before = Events(clock, on_paid(old), generation=3)
    after = Events(clock, on_paid(new), generation=4, store=before.store)
    event_id = await before.publish(generation=3)

    await after.work()
    assert new.events == []
    await before.work()
    await replay(after.ops, event_id, new_generation=4, replayed_by="ops")
    await before.work()
    assert len(old.events) == 1
    await after.work()

    assert len(new.events) == 1
    row = LAYOUT.record(await after.stored(event_id))
    assert row is not None
    assert (row["generation"], row["status"]) == (4, "delivered")
    assert row["failure_history"][0]["generation"] == 3


async def test_generation_zero_is_for_any_worker(clock: ManualClock) -> None:
    """X-68"""
    handler = Handler(clock)
    world = Events(clock, on_paid(handler), generation=9)

    await world.publish()
    await world.work()

    assert len(handler.events) == 1


@pytest.mark.parametrize("errors", [[Refund("void")], flaky(5)])
async def test_each_move_into_failed_alerts_once_with_seven_fields(
    clock: ManualClock, errors: list[Exception]
) -> None:
    """E-050, E-051, E-052"""
    handler = Handler(clock, *errors)
    world = Events(clock, on_paid(handler))
    event_id = await world.publish()
    await world.work_for(60)
    handler.fail_with(*errors)
    await replay(world.ops, event_id, new_generation=0, replayed_by="ops")
    await world.work_for(60)

    assert world.alerts.words() == ["alert", "alert"]
    fields = alert_fields(world.alerts.heard[0][1], "book_revenue")
    assert fields == {
        "event_id": event_id,
        "event_type": "invoice.paid",
        "source": "billing",
        "target": "ledger",
        "handler_name": "book_revenue",
        "last_error": f"{type(errors[0]).__name__}: {errors[0]}",
        "attempts": len(errors),
    }


async def test_each_attempt_is_told_to_observers(clock: ManualClock) -> None:
    """E-053, E-058"""
    world = Events(clock, on_paid(Handler(clock, *flaky(5))))

    event_id = await world.publish()
    await world.work_for(60)

    assert [name for name, _ in world.story.told] == ["accept", *["fail"] * 5]
    assert (await world.get(event_id)).failure_history == ()


async def test_several_handlers_have_budgets_of_their_own(clock: ManualClock) -> None:
    """E-013, E-062"""
    good, bad = Handler(clock), Handler(clock, *flaky(9))
    world = Events(clock, on_paid(good), on_paid(bad, name="send_receipt"))

    event_id = await world.publish()
    await world.work()
    assert await world.word(event_id) == "in_flight"
    await world.check_filters()
    await world.work_for(60)

    assert (len(good.events), len(bad.events)) == (1, 5)
    assert await world.word(event_id) == "failed"
    failed, event = [delivery for _, delivery in world.alerts.heard]
    assert (failed.parent_id, failed.metadata["handler"]) == (event_id, "send_receipt")
    assert (event.id, event.fanned_out) == (event_id, True)

    await replay(world.ops, event_id, new_generation=0, replayed_by="ops")
    bad._errors.clear()
    await world.work_for(60)
    assert (len(good.events), len(bad.events)) == (1, 6)
    assert await world.word(event_id) == "delivered"


async def test_a_replay_takes_the_handlers_rows_to_the_new_generation(
    clock: ManualClock,
) -> None:
    """E-038"""
    old = [Handler(clock), Handler(clock, Refund("old code"))]
    new = [Handler(clock), Handler(clock)]
    before, after = (
        [on_paid(handlers[0]), on_paid(handlers[1], name="send_receipt")] for handlers in (old, new)
    )
    third = Events(clock, *before, generation=3)
    fourth = Events(clock, *after, generation=4, store=third.store)
    event_id = await third.publish(generation=3)
    await third.work()

    await replay(fourth.ops, event_id, new_generation=4, replayed_by="ops")
    await third.work()
    await fourth.work()

    assert [len(handler.events) for handler in (*old, *new)] == [1, 1, 0, 1]
    assert await fourth.word(event_id) == "delivered"


def handled(event_id: str, name: str) -> Fact:
    return Fact("event_handled", f"{event_id}/{name}", 0, {"handler": name})


async def test_an_event_handled_before_is_delivered_without_its_effect(
    clock: ManualClock,
) -> None:
    """E-002, E-054"""
    handler = Handler(clock, *flaky(1))
    world = Events(clock, on_paid(handler))
    event_id = await world.publish()
    await world.work()
    await world.store.save([], [handled(event_id, "book_revenue")])

    await world.work_for(60)

    assert len(handler.events) == 1
    assert await world.word(event_id) == "delivered"


async def test_a_replayed_event_that_was_handled_is_delivered_without_its_effect(
    clock: ManualClock,
) -> None:
    """E-055"""
    handler = Handler(clock, Refund("void"))
    world = Events(clock, on_paid(handler))
    event_id = await world.publish()
    await world.work()

    await world.store.save([], [handled(event_id, "book_revenue")])
    await replay(world.ops, event_id, new_generation=0, replayed_by="ops")
    await world.work()

    assert len(handler.events) == 1
    assert await world.word(event_id) == "delivered"


async def test_several_handlers_see_the_events_own_identity(clock: ManualClock) -> None:
    """E-043, E-054"""
    handlers = [Handler(clock), Handler(clock, *flaky(1))]
    world = Events(clock, on_paid(handlers[0]), on_paid(handlers[1], name="send_receipt"))
    event_id = await world.publish()
    await world.work()
    await world.store.save([], [handled(event_id, "send_receipt")])

    await world.work_for(60)

    [event] = handlers[0].events
    assert (event.id, event.key) == (event_id, "invoice-42")
    assert len(handlers[1].events) == 1
    assert await world.word(event_id) == "delivered"


async def test_a_handler_whose_worker_died_is_called_again(clock: ManualClock) -> None:
    """E-064"""
    handler = Handler(clock)
    world = Events(clock, on_paid(handler))
    event_id = await world.publish()

    await world.die_working()
    assert await world.word(event_id) == "in_flight"
    await world.work_for(60)

    assert handler.called_at_s == [60.0]
    # A lost worker is no fault of the event.
    assert (await world.get(event_id)).attempts_spent == 1


async def test_a_wait_survives_a_restart(clock: ManualClock) -> None:
    """E-065"""
    handler = Handler(clock, *flaky(1))
    first = Events(clock, on_paid(handler))
    await first.publish()
    await first.work()

    again = Events(clock, on_paid(handler), store=first.store)
    await again.work_for(60)

    assert handler.called_at_s == [0.0, 0.5]


async def test_the_same_key_is_one_event(clock: ManualClock) -> None:
    """E-002"""
    handler = Handler(clock)
    world = Events(clock, on_paid(handler))

    first = await world.publish()
    again = await world.publish(event_id="another-id")
    await world.work()

    assert (first, len(handler.events)) == (again, 1)
    with pytest.raises(IdempotencyConflict):
        await world.publish(payload={"invoice": 43})


async def test_a_dismissed_event_is_failed_with_a_deletion_time(clock: ManualClock) -> None:
    """E-001, E-005"""
    world = Events(clock, on_paid(Handler(clock, Refund("void"), Refund("void"))))
    kept = await world.publish()
    gone = await world.publish(event_id="gone", idempotency_key="gone")
    await world.work()
    clock.advance(5)

    await world.ops.dismiss(gone, actor="ops", reason="known")

    rows = [LAYOUT.record(await world.stored(event_id)) for event_id in (kept, gone)]
    assert [(row or {})["status"] for row in rows] == ["failed", "failed"]
    assert [(row or {})["deleted_at"] for row in rows] == [None, "2026-02-23T10:00:05.000Z"]
    assert await dead_letters(world) == [kept]
    await world.check_filters()
    await world.ops.restore(gone, actor="ops", reason="not known after all")
    assert sorted(await dead_letters(world)) == sorted([kept, gone])


async def dead_letters(world: Events) -> Sequence[str]:
    stored = [await world.stored(id_) for id_ in await world.filtered("failed")]
    rows = [LAYOUT.record(each) for each in stored if each.delivery.parent_id is None]
    return [row["event_id"] for row in rows if row is not None and row["deleted_at"] is None]


async def test_only_four_words_are_seen_and_filtered(clock: ManualClock) -> None:
    """E-001"""
    errors: list[Exception] = [Refund("void"), *flaky(1)]
    world = Events(clock, on_paid(Handler(clock, *errors)))
    for number in range(3):
        await world.publish(event_id=f"e{number}", idempotency_key=str(number))
        await world.work()
    await world.publish(event_id="e3", idempotency_key="3")
    await world.die_working()

    assert LAYOUT.words == ("pending", "in_flight", "delivered", "failed")
    await world.check_filters()
    shown = await world.shown()
    assert {word: len(ids) for word, ids in shown.items()} == dict.fromkeys(LAYOUT.words, 1)


# With a retry and a replay; `in_flight` to itself is an event that becomes several. From pending
# to in_flight goes a claim, the one change that a store makes by itself.
MOVES = {
    ("in_flight", "in_flight"),
    ("in_flight", "delivered"),
    ("in_flight", "failed"),
    ("in_flight", "pending"),
    ("failed", "pending"),
}


class Moves:
    """From which word to which each delivery went."""

    def __init__(self) -> None:
        self.seen: set[tuple[str, str]] = set()

    def observe(self, events: Sequence[Transitioned]) -> None:
        word = LAYOUT.labels.word
        self.seen |= {
            (word(event.previous), word(event.delivery)) for event in events if event.previous
        }


@pytest.mark.parametrize("seed", range(3))
async def test_a_random_run_makes_no_other_moves(clock: ManualClock, seed: int) -> None:
    """E-001"""
    chance, moves = random.Random(seed), Moves()
    handlers = [Handler(clock), Handler(clock), Handler(clock)]
    paid = on_paid(handlers[0]), on_paid(handlers[1], name="send_receipt")
    world = Events(clock, *paid, on_sent(handlers[2]))
    world.engine.add_observer(moves)

    for number in range(60):
        kind = chance.choice(["invoice.paid", "invoice.sent"])
        await world.publish(event_id=f"e{number}", event_type=kind, idempotency_key=f"{number}")
        for handler in handlers:
            if chance.random() < 0.6:
                handler.fail_with(chance.choice([Refund("void"), *flaky(5)]))
        await world.work()
        clock.advance(chance.choice([0.1, 1, 10]))
        for event_id in await dead_letters(world):
            await replay(world.ops, event_id, new_generation=0, replayed_by="ops")

    assert moves.seen == MOVES


async def test_other_verbs_are_not_offered(clock: ManualClock) -> None:
    """E-059, X-63"""
    world = Events(clock, on_paid(Handler(clock, Refund("void"))))
    event_id = await world.publish()
    await world.work()

    for verb in ("restart", "resend", "cancel"):
        with pytest.raises(NotAllowed, match=f"does not offer {verb}"):
            await getattr(world.ops, verb)(event_id, actor="ops", reason="now")


async def test_a_row_inserted_by_a_producer_is_an_event(clock: ManualClock) -> None:
    """E-001, E-027"""
    handler = Handler(clock)
    world = Events(clock, on_paid(handler), generation=2)
    event_id = await world.publish(generation=2)
    row = LAYOUT.record(await world.stored(event_id))
    assert row is not None
    inserted = {**row, "event_id": "by-sql", "idempotency_key": "by-sql"}

    await world.store.add([world.adopted(LAYOUT.parse(inserted))])
    await world.work()

    assert {event.id for event in handler.events} == {event_id, "by-sql"}
    assert LAYOUT.record(await world.stored("by-sql")) == inserted | {
        "status": "delivered",
        "attempts": 1,
    }
    with pytest.raises(InvalidRequest, match="status"):
        LAYOUT.parse({**row, "status": "sent"})
    with pytest.raises(InvalidRequest, match="failure_history"):
        LAYOUT.parse({**row, "failure_history": [{"cycle": 1}]})


async def test_a_thousand_replays_still_work(clock: ManualClock) -> None:
    """E-061"""
    handler = Handler(clock, *[Refund("void") for _ in range(1001)])
    world = Events(clock, on_paid(handler))
    event_id = await world.publish()
    await world.work()

    for _ in range(1000):
        await replay(world.ops, event_id, new_generation=0, replayed_by="sql-direct")
        await world.work()

    assert len(handler.events) == 1001
    assert len((await world.get(event_id)).failure_history) == 1000


async def test_more_than_ten_failed_events_of_a_week_are_told_once(clock: ManualClock) -> None:
    """E-049"""
    world, bell = Events(clock, on_paid(Handler(clock, *[Refund("void")] * 99))), Bell()
    engine = Engine(
        world.store, (world.route,), clock=clock, rng=SeededRandom(1), alarm=bell, holder="other"
    )

    async def fail(number: int) -> None:
        for _ in range(number):
            await world.publish(event_id=str(uuid4()), idempotency_key=str(uuid4()))
        await world.work()
        await engine.alerts.alert_many_failed()
        await engine.alerts.alert_many_failed()

    await fail(10)
    assert bell.alerts == []
    await fail(1)
    [alert] = bell.alerts
    assert alert.text == "route events has 11 dead letters of the last 7 days, more than 10"
    clock.advance(8 * DAY_S)
    await fail(10)
    assert len(bell.alerts) == 1
    await fail(2)
    assert len(bell.alerts) == 2


async def test_the_growth_of_histories_is_a_metric(clock: ManualClock) -> None:
    """E-061"""
    metrics = PrometheusMetrics()
    world = Events(clock, on_paid(Handler(clock, Refund("void"), Refund("void"))))
    world.engine.add_observer(metrics)
    event_id = await world.publish()
    await world.work()
    for _ in range(2):
        await replay(world.ops, event_id, new_generation=0, replayed_by="ann")
        await world.work()

    page = metrics.page(None).decode()
    assert 'homing_failure_history_entries_total{route="events"} 2.0' in page
    [size] = re.findall(r'homing_failure_history_bytes_total{route="events"} ([0-9.]+)', page)
    assert float(size) > 200


def test_the_named_parts_are_there() -> None:
    """E-015, E-048"""
    assert {"RetryPolicy", "DEFAULT_RETRY_POLICY", "TerminalHandlerError", "FailureCycle"} <= {
        *homing_systems.events.__all__
    }
    assert RetryPolicy() == DEFAULT_RETRY_POLICY
    for name in ("list_dlq_events", "get_dlq_event_detail", "replay_dlq_event"):
        assert callable(getattr(tools, name))
    assert (ROOT / "systems/docs/runbooks/event-substrate.md").exists()


def test_a_field_that_failure_cycle_loses_breaks_this() -> None:
    """E-041"""
    assert FailureCycle.__struct_fields__[:8] == (
        *("cycle", "attempts", "last_error", "first_failed_at", "failed_at"),
        *("generation", "replayed_at", "replayed_by"),
    )
