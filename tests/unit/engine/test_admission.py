"""The way in: checked, frozen, stored once for each key; then perhaps attempted at once."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from homing.domain.delivery import Delivery, Fact, New, Receipt, Recipient
from homing.domain.errors import IdempotencyConflict, InvalidRequest, StoreFull
from homing.domain.failure import Failure
from homing.domain.identity import INTENT_SOURCE
from homing.domain.message import Email, Event, decode_message
from homing.domain.policy import Plan, Retention
from homing.engine.intake.admission import Request, Ticket
from homing.engine.intake.admitted import Admitted
from homing.ports import Added, Done, Existing, Outcome, Work
from homing.stores.memory import MemoryStore
from homing.testing.clocks import moment
from tests.unit.engine.world import FaultyStore, Script, World, route, stage

DAY_MS = 24 * 3600 * 1000


def paid(order: int = 1, **words: Any) -> Request:
    return Request(message=Event("paid", {"order": order}), **words)


class CountingStore(MemoryStore):
    """Counts how often it is asked for records."""

    reads = 0

    async def get_many(self, delivery_ids: Sequence[str]) -> list[Delivery | None]:
        self.reads += 1
        return await super().get_many(delivery_ids)


def as_ticket(answer: Ticket | IdempotencyConflict) -> Ticket:
    assert isinstance(answer, Ticket)
    return answer


async def submit(world: World, request: Request) -> Ticket:
    [answer] = await world.engine.admission.submit(world.route, [request])
    if isinstance(answer, IdempotencyConflict):
        raise answer
    return answer


async def test_what_is_accepted_is_stored_as_it_was_said() -> None:
    world = World()

    ticket = await submit(
        world, paid(key="order-1", source="shop", priority=1, metadata={"trace": "t1"})
    )

    stored = await world.get(ticket.delivery_id)
    content = await world.store.content(ticket.delivery_id)
    assert (ticket.created, ticket.delivery) == (True, stored)
    assert (stored.state, stored.stage, stored.topic) == ("pending", "handle", "paid")
    assert (stored.source, stored.key, stored.priority) == ("shop", "order-1", 1)
    assert (stored.due_at_ms, stored.metadata) == (world.now_ms, {"trace": "t1"})
    assert content is not None
    assert decode_message(content.payload) == Event("paid", {"order": 1})


async def test_i3_the_same_request_again_is_the_same_delivery() -> None:
    world = World()

    first = await submit(world, paid(key="order-1"))
    again = await submit(world, paid(key="order-1"))

    assert (again.created, again.delivery_id) == (False, first.delivery_id)


async def test_i3_another_request_under_the_same_key_is_a_conflict() -> None:
    world = World()
    first = await submit(world, paid(1, key="order-1"))

    with pytest.raises(IdempotencyConflict) as conflict:
        await submit(world, paid(2, key="order-1"))

    assert conflict.value.delivery_id == first.delivery_id


@pytest.mark.parametrize("times", [("send_at",), ("expires_at",)])
async def test_i3_a_retry_may_compute_its_times_again(times: tuple[str]) -> None:
    """`now + a day` is another number at every retry."""
    world = World()

    async def attempt() -> Ticket:
        later: dict[str, Any] = dict.fromkeys(times, moment(world.now_ms + DAY_MS))
        return await submit(world, paid(key="order-1", **later))

    first = await attempt()
    world.clock.advance(1)
    again = await attempt()

    assert (again.created, again.delivery_id) == (False, first.delivery_id)
    assert (again.delivery.due_at_ms, again.delivery.expires_at_ms) == (
        first.delivery.due_at_ms,
        first.delivery.expires_at_ms,
    )


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"sum": 1}, {"sum": 1.0}),
        ({"sum": [10**16, 0]}, {"sum": [1e16, -0.0]}),
        ({"name": "caf\u00e9"}, {"name": "cafe\u0301"}),
        ({"\u00e9": 1, "f": 2}, {"f": 2, "e\u0301": 1}),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
    ],
)
async def test_i3_another_spelling_is_the_same_request(one: object, other: object) -> None:
    world = World()
    first = await submit(world, Request(message=Event("paid", one), key="order-1"))
    again = await submit(world, Request(message=Event("paid", other), key="order-1"))

    assert (again.created, again.delivery_id) == (False, first.delivery_id)
    content = await world.store.content(first.delivery_id)
    assert content is not None
    assert decode_message(content.payload) == Event("paid", one), "stored as it was written"


async def test_a_route_may_return_the_first_and_note_the_mismatch() -> None:
    world = World(route(on_mismatch="return_existing"))
    first = await submit(world, paid(1, key="order-1"))

    again = await submit(world, paid(2, key="order-1"))

    assert (again.created, again.delivery_id) == (False, first.delivery_id)
    assert len(await world.store.facts("mismatch")) == 1


async def test_i3_fifty_at_once_are_one() -> None:
    world = World(store=FaultyStore())

    tickets = await asyncio.gather(*(submit(world, paid(key="order-1")) for _ in range(50)))

    assert len({ticket.delivery_id for ticket in tickets}) == 1
    assert sum(ticket.created for ticket in tickets) == 1


async def test_the_same_key_of_another_source_is_another_delivery() -> None:
    world = World()

    one = await submit(world, paid(key="1", source="shop"))
    other = await submit(world, paid(key="1", source="blog"))

    assert one.delivery_id != other.delivery_id


async def test_the_term_of_a_key_begins_when_its_delivery_ends() -> None:
    world = World(route(rules={"retention": Retention(key_s=60.0)}))
    first = await submit(world, paid(key="order-1"))

    world.clock.advance(3600)
    assert not (await submit(world, paid(key="order-1"))).created
    await world.run()
    world.clock.advance(59)
    assert not (await submit(world, paid(key="order-1"))).created
    world.clock.advance(1)
    again = await submit(world, paid(2, key="order-1"))

    assert (again.created, again.delivery_id != first.delivery_id) == (True, True)


async def test_one_conflict_keeps_none_of_the_others_out() -> None:
    world = World()
    await submit(world, paid(1, key="a"))

    answers = await world.engine.admission.submit(
        world.route, [paid(2, key="b"), paid(2, key="a"), paid(3, key="c")]
    )

    kinds = [type(answer) for answer in answers]
    assert kinds == [Ticket, IdempotencyConflict, Ticket]
    assert await world.run() == 3


async def test_one_intent_exists_once_whatever_the_key() -> None:
    world = World(route(admit=lambda e: Admitted.of(e, intent=f"order-{e.data['order']}")))

    first = await submit(world, paid(1, key="a"))
    again = await submit(world, paid(1, key="b"))
    other = await submit(world, paid(2, key="c"))

    assert (again.created, again.delivery_id) == (False, first.delivery_id)
    assert other.created


async def test_without_a_key_every_call_is_a_delivery_of_its_own() -> None:
    world = World()

    assert (await submit(world, paid())).delivery_id != (await submit(world, paid())).delivery_id


async def test_a_caller_may_bring_the_id_but_not_take_one() -> None:
    world = World()
    ticket = await submit(world, paid(delivery_id="row-7"))
    assert ticket.delivery_id == "row-7"

    with pytest.raises(InvalidRequest, match="delivery_id: is taken"):
        await submit(world, paid(2, delivery_id="row-7"))


@pytest.mark.parametrize(
    ("field", "words"),
    [
        ("key", {"key": ""}),
        ("key", {"key": "x" * 513}),
        ("source", {"source": INTENT_SOURCE}),
        ("priority", {"priority": 0}),
        ("priority", {"priority": 5}),
        ("expires_at", {"expires_at": moment(1)}),
        ("metadata", {"metadata": {"a": "x" * 9000}}),
        ("to", {"message": Email(to=())}),
        ("data", {"message": Event("paid", 2**70)}),
        ("data", {"message": Event("paid", object())}),
        ("data", {"message": Event("paid", "\ud800")}),
    ],
)
async def test_a_wrong_request_is_refused_and_names_the_field(
    field: str, words: dict[str, Any]
) -> None:
    world = World()
    words = {"message": Event("paid")} | words

    with pytest.raises(InvalidRequest) as refusal:
        await submit(world, Request(**words))

    assert refusal.value.field == field
    assert world.store.disk.deliveries == {}


async def test_a_route_may_demand_a_key() -> None:
    world = World(route(needs_key=True))

    with pytest.raises(InvalidRequest, match="key: is required"):
        await submit(world, paid())
    assert (await submit(world, paid(key="a"))).created


async def test_a_route_may_refuse_a_message() -> None:
    def admit(event: Event) -> Admitted:
        if event.data["order"] < 0:
            raise InvalidRequest("order", "must not be negative")
        return Admitted.of(event)

    world = World(route(admit=admit))

    with pytest.raises(InvalidRequest, match="order"):
        await submit(world, paid(-1))
    assert (await submit(world, paid(1))).created


async def test_harmless_differences_of_spelling_are_no_conflict() -> None:
    world = World(route(admit=lambda e: Admitted.of(Event(e.type.lower(), e.data))))

    first = await submit(world, Request(message=Event("Paid"), key="a"))
    again = await submit(world, Request(message=Event("PAID"), key="a"))

    assert again.delivery_id == first.delivery_id


async def test_what_is_skipped_on_purpose_is_stored_as_such_and_never_tried() -> None:
    step = Script()
    world = World(route(step=step, admit=lambda e: Admitted.of(e, suppressed_because="stub mode")))

    ticket = await submit(world, paid(key="a"))
    await world.run()

    assert (ticket.delivery.state, step.seen) == ("suppressed", [])
    assert not (await submit(world, paid(key="a"))).created


async def test_the_queue_and_the_recipients_are_the_routes_to_say() -> None:
    world = World(
        route(
            generation=0,
            admit=lambda e: Admitted.of(e, queue=e.type, recipients=("ann@example.org",)),
        )
    )

    ticket = await submit(world, paid(generation=3))

    assert ticket.delivery.queue == "event/paid@3"
    assert ticket.delivery.recipients == (Recipient("ann@example.org"),)


async def test_of_those_submitted_at_one_moment_each_has_its_own_generation() -> None:
    world = World(route(generation=0))

    tickets = await asyncio.gather(
        *(
            world.engine.admission.submit_one(world.route, paid(generation=number))
            for number in (3, 4, 3)
        )
    )

    assert [(t.delivery.generation, t.delivery.queue) for t in tickets] == [
        (3, "event@3"),
        (4, "event@4"),
        (3, "event@3"),
    ]


async def test_observers_are_told_of_new_deliveries_alone() -> None:
    world = World()
    await submit(world, paid(key="known"))
    world.told.clear()

    answers = await world.engine.admission.submit(
        world.route, [paid(key="known"), paid(key="new"), paid(2, key="known")]
    )

    assert isinstance(answers[2], IdempotencyConflict)
    assert [event.delivery.key for event in world.told] == ["new"]


async def test_a_generation_says_nothing_where_the_route_has_none() -> None:
    world = World()

    delivery = (await submit(world, paid(generation=3))).delivery

    assert (delivery.queue, delivery.generation) == ("event", 3)


async def test_a_message_may_ask_for_a_plan_of_its_route() -> None:
    short = Plan(stages=(stage("handle", attempts=1),), retention=Retention(key_s=60.0))
    world = World(
        route(
            step=Script(Failure("deferred"), Failure("deferred")),
            plans={"once": short},
            admit=lambda e: Admitted.of(e, plan="once" if e.data["order"] == 1 else ""),
        )
    )

    once = (await submit(world, paid(1))).delivery
    often = (await submit(world, paid(2))).delivery
    await world.run()

    assert (once.plan, once.queue, once.key_term_s) == ("once", often.queue, 60.0)
    assert ((await world.get(once.id)).state, (await world.get(often.id)).state) == (
        "failed",
        "pending",
    )


async def test_a_plan_that_the_route_does_not_have_is_the_routes_own_fault() -> None:
    world = World(route(admit=lambda e: Admitted.of(e, plan="quick")))

    with pytest.raises(LookupError, match="route 'event' has no plan 'quick'"):
        await submit(world, paid())
    assert world.store.disk.deliveries == {}


async def test_facts_of_a_request_are_stored_with_its_delivery() -> None:
    world = World()
    noted = Fact("offset", "orders/7", 1, {"offset": 7})
    late = Fact("offset", "orders/8", 1, {"offset": 8})

    await submit(world, paid(key="a", facts=(noted,)))
    await submit(world, paid(key="a", facts=(late,)))

    assert await world.store.facts("offset") == [noted]


async def test_many_are_answered_in_order_and_repeats_are_read_together() -> None:
    world = World(route(on_mismatch="return_existing"), store=(store := CountingStore()))
    [first] = await world.engine.admission.submit(world.route, [paid(1, key="a")])

    answers = await world.engine.admission.submit(
        world.route, [paid(n, key=key) for n, key in enumerate(("b", "a", "c", "a"))]
    )

    assert [isinstance(one, Ticket) and one.created for one in answers] == [True, False] * 2
    assert answers[1] == answers[3] == Ticket(as_ticket(first).delivery, created=False)
    # One differs from what was stored under its key, and is noted.
    assert len(await world.store.facts("mismatch")) == 1
    assert store.reads == 1


async def test_what_is_accepted_together_has_ids_in_its_order() -> None:
    world = World()

    answers = await world.engine.admission.submit(world.route, [paid(n) for n in range(5000)])
    later = await submit(world, paid())

    ids = [as_ticket(one).delivery_id for one in (*answers, later)]
    assert sorted(set(ids)) == ids


async def test_i13_what_is_for_later_is_not_tried_earlier() -> None:
    step = Script()
    world = World(route(step=step))
    ticket = await world.engine.admission.send(
        world.route, paid(send_at=moment(world.now_ms + DAY_MS))
    )

    await world.run(after_s=24 * 3600 - 1)
    assert (ticket.delivery.state, step.seen) == ("pending", [])
    await world.run(after_s=1)
    assert len(step.seen) == 1


async def test_send_records_first_then_attempts_that_very_record() -> None:
    stored_before: list[str] = []

    async def step(work: Work) -> Outcome:
        stored = await world.get(work.delivery.id)
        stored_before.append(f"{stored.state} {stored.phase} {stored.holder}")
        return Done(receipt=Receipt("n-1"))

    world = World(route(step=step))
    ticket = await world.engine.admission.send(world.route, paid(key="order-1"))

    assert stored_before == ["in_flight inline w1"]
    assert (ticket.delivery.state, ticket.created) == ("delivered", True)
    assert await world.get(ticket.delivery_id) == ticket.delivery


async def test_sending_the_same_again_attempts_nothing() -> None:
    step = Script()
    world = World(route(step=step))
    first = await world.engine.admission.send(world.route, paid(key="order-1"))

    again = await world.engine.admission.send(world.route, paid(key="order-1"))

    assert (again.created, again.delivery.state, len(step.seen)) == (False, "delivered", 1)
    assert again.delivery_id == first.delivery_id


async def test_an_inline_attempt_that_fails_is_left_to_the_worker() -> None:
    world = World(route(step=Script(Failure("deferred")), rules={"inline_counts": False}))

    ticket = await world.engine.admission.send(world.route, paid())
    assert (ticket.delivery.state, ticket.delivery.attempts_spent) == ("pending", 0)
    await world.run(after_s=60)

    assert (await world.get(ticket.delivery_id)).state == "delivered"


async def test_an_inline_call_goes_through_all_stages() -> None:
    step = Script(Done(b"page"), Done(b"text"))
    world = World(route(stage("fetch"), stage("think"), stage("notify"), step=step))

    ticket = await world.engine.admission.send(world.route, paid())

    assert ticket.delivery.state == "delivered"
    assert [delivery.stage for delivery in step.seen] == ["fetch", "think", "notify"]
    assert {delivery.phase for delivery in step.seen} == {"inline"}


async def test_a_lost_inline_call_is_found_by_the_next_worker() -> None:
    started = asyncio.Event()

    async def hang(work: Work) -> Outcome:
        started.set()
        await asyncio.Event().wait()
        return Done()

    here = World(route(step=hang))
    call = asyncio.ensure_future(here.engine.admission.send(here.route, paid(key="a")))
    await started.wait()
    call.cancel()
    await asyncio.gather(call, return_exceptions=True)

    there = World(route(), store=here.store, clock=here.clock, name="w2")
    await there.run(after_s=here.route.lease_s)

    [stored] = here.store.disk.deliveries.values()
    assert (stored.state, stored.attempts_ended) == ("delivered", 2)


async def test_i2_a_store_that_is_full_accepts_nothing() -> None:
    store = FaultyStore()
    world = World(store=store)
    store.before["add"].append(StoreFull("no space"))

    with pytest.raises(StoreFull):
        await submit(world, paid(key="a"))

    assert store.disk.deliveries == {}
    assert (await submit(world, paid(key="a"))).created


class OpenTransaction:
    """The caller's own; nothing of it is stored before the caller commits."""

    def __init__(self, store: MemoryStore) -> None:
        self.store = store
        self.added: list[New] = []

    def add(self, new: Sequence[New], facts: Sequence[Fact] = ()) -> list[Added | Existing]:
        known = {key.key: key for one in self.added for key in one.keys}
        answers: list[Added | Existing] = []
        for one in new:
            taken = next((known[key.key] for key in one.keys if key.key in known), None)
            answers.append(Existing(taken.delivery_id, taken) if taken else Added(one.delivery.id))
            self.added.extend([] if taken else [one])
        return answers


async def test_inside_the_callers_transaction_it_is_pending_and_attempted_by_nobody() -> None:
    world = World()
    transaction = OpenTransaction(world.store)

    first = world.engine.admission.submit_within(world.route, paid(key="a"), transaction)
    again = world.engine.admission.submit_within(world.route, paid(key="a"), transaction)

    assert (first.created, first.delivery.state) == (True, "pending")
    assert (again.created, again.delivery_id) == (False, first.delivery_id)
    assert world.store.disk.deliveries == {}
    with pytest.raises(IdempotencyConflict):
        world.engine.admission.submit_within(world.route, paid(2, key="a"), transaction)
