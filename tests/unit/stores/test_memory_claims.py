"""Claims of the memory store, made in bulk, give what a look at every record would give."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from homing.domain import transitions
from homing.domain.delivery import CLAIMABLE_STATES, Content, Delivery, State
from homing.ports import Claim, Query
from homing.stores.memory import MemoryDisk, MemoryStore
from homing.testing import samples

STATES: tuple[State, ...] = ("pending", "in_flight", "waiting", "delivered")
HOLDERS = ("w1", "w2")
QUEUES = ("a", "b")
TIMES = st.integers(0, 5)


@st.composite
def records(draw: st.DrawFn) -> Delivery:
    state = draw(st.sampled_from(STATES))
    return samples.delivery(
        f"d{draw(st.integers(0, 9))}",
        state=state,
        queue=draw(st.sampled_from(QUEUES)),
        priority=draw(st.sampled_from((1, 2))),
        due_at_ms=draw(st.none() | TIMES),
        holder=draw(st.sampled_from(HOLDERS)) if state == "in_flight" else None,
        parent_id=draw(st.sampled_from((None, "p"))),
        notices_due=draw(st.sampled_from(((), ("log",)))),
        unsettled_claims=draw(st.integers(0, 2)),
    )


@st.composite
def claims(draw: st.DrawFn) -> Claim:
    now_ms = draw(TIMES)
    return Claim(
        worker=draw(st.sampled_from(HOLDERS)),
        now_ms=now_ms,
        lease_until_ms=now_ms + draw(st.integers(0, 3)),
        limit=draw(st.integers(0, 4)),
        queues=draw(st.sampled_from((("a",), ("b", "a"), ("a", "a"), ("none",)))),
        alive_holders=frozenset(draw(st.sampled_from(((), ("w1",), HOLDERS)))),
        limit_bytes=draw(st.none() | st.integers(0, 30)),
    )


def _is_due(delivery: Delivery, claim: Claim) -> bool:
    return (
        delivery.state in CLAIMABLE_STATES
        and delivery.queue in claim.queues
        and delivery.due_at_ms is not None
        and delivery.due_at_ms <= claim.now_ms
        and not (delivery.state == "in_flight" and delivery.holder in claim.alive_holders)
    )


def expected(disk: MemoryDisk, claim: Claim) -> list[Delivery]:
    due = [delivery for delivery in disk.deliveries.values() if _is_due(delivery, claim)]
    due.sort(key=lambda delivery: (delivery.priority, delivery.due_at_ms, delivery.id))
    taken: list[Delivery] = []
    size = 0
    for delivery in due[: claim.limit]:
        size += len(disk.contents[delivery.id].payload)
        if taken and claim.limit_bytes is not None and size > claim.limit_bytes:
            break
        taken.append(delivery)
    return [
        transitions.claim(
            delivery,
            holder=claim.worker,
            now_ms=claim.now_ms,
            lease_until_ms=claim.lease_until_ms,
        ).delivery
        for delivery in taken
    ]


def next_due_ms(disk: MemoryDisk, queue: str) -> int | None:
    return min(
        (
            delivery.due_at_ms
            for delivery in disk.deliveries.values()
            if delivery.due_at_ms is not None
            and delivery.queue == queue
            and delivery.state in CLAIMABLE_STATES
        ),
        default=None,
    )


@given(st.lists(records() | claims() | st.sampled_from([f"d{nth}" for nth in range(10)])))
async def test_a_claim_takes_what_a_look_at_every_record_finds(
    steps: list[Delivery | Claim | str],
) -> None:
    store = MemoryStore()
    disk = store.disk
    for step in steps:
        if isinstance(step, Delivery):
            disk.put_content(step.id, Content(b"x" * (len(step.queue) + step.priority * 5)))
            disk.put(step)
        elif isinstance(step, Claim):
            wanted = expected(disk, step)
            assert [one.delivery for one in await store.claim(step)] == wanted
        elif step in disk.deliveries:
            disk.remove(step)
        for queue in QUEUES:
            assert await store.next_due_ms((queue,)) == next_due_ms(disk, queue)
        for holder in HOLDERS:
            held = {d.id for d in disk.deliveries.values() if d.holder == holder}
            assert {d.id for d in disk.candidates(Query(holder=holder))} == held


async def test_entries_that_no_longer_count_do_not_pile_up() -> None:
    store = MemoryStore()
    delivery = samples.delivery("d1")
    for nth in range(10_000):
        store.disk.put(replace(delivery, due_at_ms=nth))

    assert store.disk.due.size < 2_000
