"""Events of the library and of the plugin are one route, whoever registers the handlers."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from datetime import date
from typing import Any

import pytest
from msgspec.structs import replace

import homing_systems.events
from homing import (
    Event,
    HandlerCall,
    Homing,
    HomingError,
    InvalidRequest,
    Job,
    Retention,
    SettingsError,
)
from homing.domain.failure import Failure, Refusal
from homing.engine.work.handlers import DEFAULT_RETRY, EVENT_ROUTE, HANDLE, Handlers
from homing.ports import Transitioned
from homing.stores.memory import MemoryStore
from homing.testing.clocks import ManualClock
from homing.testing.outbox import Outbox
from homing_systems.events.route import events_route


def handlers_of(event_type: str, *functions: Any) -> Handlers:
    handlers = Handlers()
    for number, function in enumerate(functions):
        handlers.add(event_type, function, name=f"h{number}")
    return handlers


@pytest.mark.parametrize("functions", [(), (print,), (print, print)])
def test_both_have_the_same_name_queues_and_defaults(functions: tuple[Any, ...]) -> None:
    of_library = handlers_of("paid", *functions).route()
    of_plugin = events_route(handlers_of("paid", *functions))

    assert of_library.name == of_plugin.name == EVENT_ROUTE == "events"
    assert of_library.served_queues == of_plugin.served_queues
    assert homing_systems.events.DEFAULT_RETRY_POLICY.retry == DEFAULT_RETRY
    for one, other in zip(of_library.all_plans, of_plugin.all_plans, strict=True):
        assert one.stage(HANDLE) == other.stage(HANDLE)


async def test_two_places_for_the_handlers_of_one_type_are_refused() -> None:
    """Else one of them would take the other's events and mark them delivered."""
    homing = Homing("memory:", routes=[events_route(handlers_of("paid", print))])

    @homing.on("paid")
    async def book(event: HandlerCall) -> None: ...

    with pytest.raises(SettingsError, match=r"routes: .*both own the queue 'events/paid'"):
        await homing.start()


async def test_a_job_of_a_name_that_is_taken_is_refused() -> None:
    homing = Homing("memory:")
    homing.job("review")(lambda work: None)

    with pytest.raises(HomingError, match="both own the queue 'review'"):
        homing.job("review")(lambda work: None)


async def test_what_the_library_accepts_the_plugin_works_off() -> None:
    store, clock, seen = MemoryStore(), ManualClock(), list[Any]()
    accepting = Homing(store, worker=False, clock=clock)
    working = Homing(
        store,
        worker=False,
        clock=clock,
        routes=[events_route(handlers_of("paid", lambda e: seen.append(e.data)))],
    )

    await accepting.start()
    ticket = await accepting.submit(Event("paid", 7), key="order-7")
    await working.start()
    await working.engine.run_until_idle()

    assert seen == [7]
    assert (await working.ops.show(ticket.delivery_id)).state == "delivered"


class Ears:
    def __init__(self) -> None:
        self.calls: list[list[str]] = []

    def observe(self, events: Sequence[Transitioned]) -> None:
        self.calls.append([event.name for event in events])


async def test_many_of_several_kinds_go_to_their_routes_in_one_write_and_one_call() -> None:
    ears, homing = Ears(), Homing("memory:", worker=False)
    homing.job("review")(lambda work: None)
    homing.job("digest")(lambda work: None)
    homing.on("paid")(lambda event: None)

    await homing.start()
    homing.engine.add_observer(ears)
    tickets = await homing.submit_many(
        [("a", Event("paid")), Job("review"), Job("digest"), Event("other"), ("a", Event("paid"))],
        source="shop",
    )

    kept = [ticket for ticket in tickets if not isinstance(ticket, Exception)]
    assert [ticket.delivery.queue for ticket in kept] == [
        *("events/paid", "review", "digest", "events/other", "events/paid")
    ]
    assert [ticket.created for ticket in kept] == [True] * 4 + [False]
    assert {ticket.delivery.source for ticket in kept} == {"shop"}
    assert ears.calls == [["accept"] * 4]


@pytest.mark.parametrize("event_type", ["paid", "shop/paid", "paid@2", "50%"])
@pytest.mark.parametrize("handlers", [1, 2])
async def test_an_event_of_any_type_comes_to_its_handlers(event_type: str, handlers: int) -> None:
    seen: list[str] = []
    functions = [lambda event: seen.append(event.name)] * handlers
    homing = Homing(
        "memory:", worker=False, routes=[events_route(handlers_of(event_type, *functions))]
    )

    await homing.start()
    await homing.submit(Event(event_type), key="a")
    await homing.engine.run_until_idle()

    assert seen == [event_type] * handlers


async def test_events_of_another_generation_are_left_alone_until_they_are_moved() -> None:
    seen: list[str] = []
    routes = [events_route(handlers_of("paid", *[lambda e: seen.append(e.id)] * 2), generation=2)]
    homing = Homing("memory:", worker=False, routes=routes, clock=ManualClock())

    await homing.start()
    await homing.submit(Event("paid"), key="other", generation=1)
    own = await homing.submit(Event("paid"), key="own", generation=2)
    await homing.engine.run_until_idle()

    assert seen == [own.delivery_id] * 2


class Opaque:
    """Nothing that JSON knows."""


LOOP: list[object] = []
LOOP.append(LOOP)


@pytest.mark.parametrize(
    "returned", [Opaque(), {"sum": float("nan")}, 2**70, LOOP, {"a": Opaque()}, "\ud800"]
)
async def test_a_result_that_cannot_be_kept_fails_at_once(returned: object) -> None:
    """A second call would return the same kind of value."""
    calls: list[str] = []
    homing = Homing("memory:")

    @homing.on("paid")
    async def book(event: HandlerCall) -> object:
        calls.append(event.id)
        return returned

    @homing.job("review", stages=("fetch", "judge"))
    class Review:
        async def fetch(self, job: HandlerCall) -> object:
            calls.append(job.id)
            return returned

        async def judge(self, job: HandlerCall) -> None:
            raise AssertionError("not reached")

    async with Outbox(homing) as outbox:
        for message in (Event("paid"), Job("review")):
            ticket = await homing.submit(message)
            await outbox.run()
            failed = await homing.ops.show(ticket.delivery_id)
            assert (failed.state, failed.failed_because) == ("failed", "rejected")
            assert failed.failure is not None
            assert failed.failure.error_class == "result_not_storable"
            assert failed.failure.detail.startswith("what the function returned ")
    assert len(calls) == 2


async def test_a_failure_that_a_handler_returns_is_redacted() -> None:
    """It may pass on any text. What is compared stays, but for what no store can keep."""
    said = "no\0 route for ann@example.org, password=hunter22"
    homing = Homing("memory:")

    @homing.on("paid")
    async def book(_event: HandlerCall) -> Failure:
        refused = {"ann@example.org": Refusal(permanent=True, code="5\0", detail=said)}
        return Failure(
            "token:expired\0", "reject", code="5\0", detail=said, trace=said, refused=refused
        )

    async with Outbox(homing) as outbox:
        ticket = await homing.submit(Event("paid"))
        await outbox.run()
        failure = (await homing.ops.show(ticket.delivery_id)).failure
    assert failure is not None
    assert (failure.error_class, failure.code) == ("token:expired\\x00", "5\\x00")
    assert failure.detail == "no\\x00 route for [address], password=[redacted]"
    assert "hunter22" not in repr(failure)
    assert "\\x00 route" in repr(failure.refused)


async def test_what_a_stage_returns_is_seen_by_the_next_one() -> None:
    homing, seen = Homing("memory:"), list[object]()

    @homing.job("review", stages=("fetch", "judge"))
    class Review:
        async def fetch(self, job: HandlerCall) -> object:
            return {"at": date(2030, 1, 2), "sum": 1.5, "tags": ("a", None)}

        async def judge(self, job: HandlerCall) -> None:
            seen.append(job.results["fetch"])

    async with Outbox(homing) as outbox:
        await homing.submit(Job("review"))
        await outbox.run()
    assert seen == [{"at": "2030-01-02", "sum": 1.5, "tags": ["a", None]}]


async def test_retry_and_terminal_errors_of_the_librarys_own_handler() -> None:
    homing, calls = Homing("memory:", clock=ManualClock()), list[int]()

    @homing.on("paid", retry=replace(DEFAULT_RETRY, max_attempts=2), terminal_errors=KeyError)
    async def book(event: HandlerCall) -> None:
        calls.append(event.attempt)
        raise KeyError("gone") if event.data == "known" else RuntimeError("odd")

    async with Outbox(homing) as outbox:
        await homing.submit(Event("paid", "known"))
        await outbox.run()
        assert calls == [1]
        await homing.submit(Event("paid", "other"))
        await outbox.run()
        await outbox.advance(hours=1)
    assert calls == [1, 1, 2]


async def test_the_librarys_handlers_have_the_default_classifier() -> None:
    """Their errors are judged as those of the plugin are."""
    homing, calls = Homing("memory:"), list[int]()

    @homing.on("paid", validate=lambda data: {"sum": int(data["sum"])})
    async def book(event: HandlerCall) -> None:
        calls.append(event.data["sum"])
        raise sqlite3.IntegrityError("unique")

    async with Outbox(homing) as outbox:
        bad = await homing.submit(Event("paid", {"sum": "many"}))
        twice = await homing.submit(Event("paid", {"sum": "7"}))
        await outbox.run()
        for ticket in (bad, twice):
            assert (await homing.ops.show(ticket.delivery_id)).failed_because == "rejected"
    assert calls == [7]


def test_a_wrong_check_of_the_payload_is_refused_at_once() -> None:
    homing = Homing("memory:")
    with pytest.raises(InvalidRequest, match="validate: must be a function"):
        homing.on("paid", validate=7)(print)  # type: ignore[arg-type] # on purpose


async def test_a_store_without_transactions_for_handlers_says_so_at_the_start() -> None:
    homing = Homing("memory:")

    @homing.on("paid")
    async def book(event: HandlerCall, connection: object) -> None: ...

    with pytest.raises(HomingError, match=r"handler 'book' takes a connection.*OnceStore"):
        await homing.start()


async def test_retention_applies_to_mail_events_and_jobs() -> None:
    kept = Retention(delivered_s=None, key_s=5.0)
    homing = Homing("memory:", provider="stub:", retention=kept)

    @homing.on("invoice.paid")
    async def book(event: object) -> None: ...

    @homing.job("review")
    async def review(call: object) -> None: ...

    async with homing:
        plans = [plan for route in homing.engine.routes.values() for plan in route.all_plans]
        ticket = await homing.submit(Event("invoice.paid"), key="k")

    assert {plan.retention for plan in plans} == {kept}
    assert ticket.delivery.key_term_s == 5.0
