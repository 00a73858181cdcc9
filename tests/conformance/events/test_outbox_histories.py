"""Whatever happens to events, by Python or by SQL: `core.outbox` shows what the layout says."""

from __future__ import annotations

import random
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import psycopg
import pytest
from psycopg.types.json import Jsonb

from homing import Event, Homing
from homing.domain.delivery import Delivery
from homing.domain.errors import HomingError
from homing.domain.failure import Failure
from homing.domain.message import Json
from homing.engine.work.handlers import event_queue
from homing.ports import PurgeRule, Query
from homing.stores.layout import Record, Stored
from homing.testing import samples
from homing.testing.clocks import ManualClock
from homing_systems.events import RetryPolicy, TerminalHandlerError
from homing_systems.events.record import LAYOUT
from homing_systems.events.route import replay
from tests.conformance.events.outbox import Outbox, adopt, as_layout, work
from tests.conformance.histories import Action, play

# The last one has no handler.
TYPES = ("good", "a/b@c%", "several", "nobody")
TEXTS = ("", "no", "ünï 'quotes' \"double\" \\ %s\n\ttab", "\x01", "x" * 3000)
DATA: tuple[Json, ...] = (
    *(None, {}, [], "", 0, -7, 2.5, True, "\u2028\\u0000", {"é": [1, None, {"deep": [0.1]}]}),
    {"b": 1, "a": "x" * 5000},
)
STATUSES = ("pending", "in_flight", "delivered", "failed")
INSERT = (
    "insert into core.outbox (event_type, payload, idempotency_key, source, target, status,"
    " generation, attempts, last_error, first_failed_at, deleted_at)"
    " values (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)"
)


class History:
    """Producers, workers and operators, in Python and in SQL, each doing something at random."""

    def __init__(self, outbox: Outbox, clock: ManualClock, seed: int) -> None:
        self.rng = random.Random(seed)
        self.outbox = outbox
        self.clock = clock
        self.during_work: list[bool] = []
        self.homing = outbox.homing(clock=clock)
        for kind, name in (("good", "one"), ("a/b@c%", "one"), ("several", "b"), ("several", "c")):
            retry = RetryPolicy(max_attempts=3).retry
            self.homing.on(kind, name=name, retry=retry)(self.handle)

    async def handle(self, event: object) -> Failure | None:
        before = await by_layout(self.homing)
        shown = self.shown()
        # Other attempts end meanwhile; what they have changed between the reads says nothing.
        if before == await by_layout(self.homing):
            self.during_work.append(shown == before)
        text, chance = self.rng.choice(TEXTS), self.rng.random()
        if chance < 0.35:
            raise ConnectionError(text)
        if chance < 0.5:
            raise TerminalHandlerError(text)
        if chance < 0.75:
            detail = self.rng.choice(("", text))
            return Failure("closed", self.rng.choice(("reject", "suppress")), detail=detail)
        return None

    async def submit(self) -> None:
        rng = self.rng
        names = [name for name in ("target", "deleted_at_ms") if rng.random() < 0.5]
        metadata = {
            name: rng.choice((*TEXTS[:3], "0", "1767225600123", "9" * 15)) for name in names
        }
        await self.homing.submit(
            Event(rng.choice(TYPES), rng.choice(DATA)),
            key=self.any_id(),
            source=rng.choice(("", "shop")),
            # Ids that are not UUIDs are not shown.
            delivery_id=rng.choice((None, self.any_id(), f"order-{self.any_id()}")),
            generation=rng.choice((0, 0, 3)),
            metadata=metadata,
        )

    async def enqueue(self) -> None:
        rng = self.rng
        more = {"source": "shop", "target": "ledger"} if rng.random() < 0.5 else {}
        generation = rng.choice((0, 0, 2))
        self.outbox.enqueue(self.any_id(), rng.choice(TYPES), generation=generation, **more)

    async def insert(self) -> None:
        rng = self.rng
        at = datetime.fromtimestamp(rng.randrange(10**12) / 1000, UTC)
        self.outbox.sql(
            INSERT,
            rng.choice(TYPES),
            Jsonb(rng.choice(DATA)),
            self.any_id(),
            "old",
            rng.choice((None, "ledger")),
            rng.choice(STATUSES),
            rng.choice((0, 4)),
            rng.randrange(3),
            rng.choice((None, *TEXTS)),
            rng.choice((None, at)),
            rng.choice((None, None, at)),
        )

    async def work(self) -> None:
        self.clock.advance(self.rng.choice((0.001, 1, 61.5, 600)))
        await work(self.homing)

    async def die(self) -> None:
        """A worker claims some and ends; others find that out when its leases are over."""
        queues = tuple(event_queue(kind, 0) for kind in TYPES)
        now_ms, limit = self.clock.now_ms(), self.rng.randrange(1, 4)
        claim = samples.claim(f"w-{self.any_id()}", at_ms=now_ms, queues=queues, limit=limit)
        await self.homing.store.claim(claim)

    async def repair(self) -> None:
        """By Python; verbs that its state does not allow are refused."""
        if (event := await self.any_event()) is None:
            return
        ops, event_id = self.homing.ops, event.id
        chance = self.rng.random()
        try:
            if chance < 0.4:
                later = self.rng.choice((0, 0, 1))
                generation = event.generation + later
                await replay(ops, event_id, new_generation=generation, replayed_by="ann")
            elif chance < 0.6:
                await ops.dismiss(event_id, actor="ann", reason="test")
            elif chance < 0.8:
                await ops.restore(event_id, actor="ann", reason="test")
            else:
                await ops.cancel(event_id, actor="ann", reason="test")
        except HomingError:
            pass

    async def repair_by_sql(self) -> None:
        if (event := await self.any_event()) is None or not is_uuid(event.id):
            return
        chance = self.rng.random()
        try:
            if chance < 0.4:
                self.outbox.replay(event.id, event.generation + self.rng.choice((0, 0, 1)))
            elif chance < 0.8:
                at = "now()" if chance < 0.6 else "null"
                self.outbox.sql(
                    f"update core.outbox set deleted_at = {at} where event_id = %s", event.id
                )
            else:
                self.outbox.sql(
                    "update core.outbox set status = 'failed', last_error = %s where event_id = %s",
                    *(self.rng.choice(TEXTS), event.id),
                )
        except psycopg.Error:
            pass

    async def purge(self) -> None:
        """Payloads of closed events are removed; the events stay."""
        now_ms = self.clock.now_ms()
        await self.homing.store.purge(PurgeRule(what="payload", before_ms=now_ms, limit=2))

    async def any_event(self) -> Delivery | None:
        """Most verbs are about ended events; so are most choices."""
        events = await events_of(self.homing)
        ended = [event for event in events if event.is_terminal]
        chosen = ended if self.rng.random() < 0.8 else events
        return self.rng.choice(chosen) if chosen else None

    def any_id(self) -> str:
        return str(UUID(int=self.rng.getrandbits(128), version=4))

    def shown(self) -> dict[str, Any]:
        rows = map(as_layout, self.outbox.sql("select * from core.outbox"))
        return {row["event_id"]: row for row in rows}

    async def compare(self) -> None:
        await adopt(self.homing)
        assert self.shown() == await by_layout(self.homing)


async def events_of(homing: Homing) -> list[Delivery]:
    page = await homing.store.page(Query(route="events"), None, 1000)
    return sorted(
        [delivery for delivery in page.items if delivery.parent_id is None],
        key=lambda delivery: delivery.created_at_ms,
    )


async def by_layout(homing: Homing) -> dict[str, Record | None]:
    """What the RecordLayout makes of every stored event that the table can show."""
    records = {}
    for delivery in await events_of(homing):
        if is_uuid(delivery.id):
            content = await homing.store.content(delivery.id)
            assert content is not None
            records[delivery.id] = LAYOUT.record(Stored(delivery, content, ()))
    return records


def is_uuid(text: str) -> bool:
    try:
        return str(UUID(text)) == text
    except ValueError:
        return False


@pytest.mark.parametrize("seed", range(6))
async def test_the_table_shows_what_the_layout_says_after_any_history(
    outbox: Outbox, server_clock: ManualClock, seed: int
) -> None:
    """E-005, E-030, E-058"""
    history = History(outbox, server_clock, seed)
    async with history.homing:
        actions: dict[Action, float] = {
            history.submit: 3,
            history.enqueue: 2,
            history.insert: 1,
            history.work: 5,
            history.die: 1,
            history.repair: 3,
            history.repair_by_sql: 3,
            history.purge: 0.5,
        }
        await play(history.rng, actions, history.compare, times=60)
    assert history.during_work
    assert all(history.during_work)
