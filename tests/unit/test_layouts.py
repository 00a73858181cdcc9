"""The records of a RecordLayout are written by a store that can, for the routes of this program."""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from homing import Email, Homing
from homing.domain.policy import Plan, Retention
from homing.providers.stub import stub_from_url
from homing.runtime.mail_route import mail_route
from homing.stores.memory import MemoryStore
from homing.testing.clocks import ManualClock
from homing.testing.contract.foreign import FOREIGN


async def test_what_the_engine_does_is_shown_with_the_retention_of_its_route() -> None:
    def kept_a_minute(plan: Plan) -> Plan:
        return replace(plan, retention=Retention(delivered_s=60.0))

    store, clock = MemoryStore(), ManualClock()
    route = mail_route(stub_from_url("stub:"), sender="shop@example.org").with_plans(kept_a_minute)
    homing = Homing(
        store, routes=(route,), layouts={route.name: FOREIGN}, worker=False, clock=clock
    )

    async with homing:
        waiting = await homing.submit(Email(to="ann@example.org", subject="Hi", text="Hello"))
        sent = await homing.send(Email(to="bob@example.org", subject="Hi", text="Hello"))

    queued = await store.shown(f"queue/{waiting.delivery_id}")
    assert queued is not None
    assert (msgspec.json.decode(queued.data)["status"], queued.gone_at_ms) == ("QUEUED", None)
    gone = await store.shown(f"queue/{sent.delivery_id}")
    assert gone is not None
    assert msgspec.json.decode(gone.data)["status"] == "SENT"
    assert gone.gone_at_ms == clock.now_ms() + 60_000
    assert await store.shown_under("status/SENT") == [f"queue/{sent.delivery_id}"]


async def test_a_queue_may_have_a_layout_of_its_own() -> None:
    store = MemoryStore()
    route = mail_route(stub_from_url("stub:"), sender="shop@example.org")
    [queue] = route.served_queues
    other = replace(FOREIGN, key=lambda delivery: f"own/{delivery.id}")
    homing = Homing(store, routes=(route,), layouts={queue: other}, worker=False)

    async with homing:
        ticket = await homing.submit(Email(to="ann@example.org", subject="Hi", text="Hello"))

    assert await store.shown(f"own/{ticket.delivery_id}") is not None


async def test_other_routes_are_not_shown() -> None:
    store = MemoryStore()
    homing = Homing(store, provider="stub:", layouts={"another": FOREIGN}, worker=False)

    async with homing:
        ticket = await homing.submit(Email(to="ann@example.org", subject="Hi", text="Hello"))

    assert await store.shown(f"queue/{ticket.delivery_id}") is None
