"""The outbox as a SQL client sees it, and a Homing that works on it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any
from uuid import UUID, uuid4

import psycopg
from msgspec.structs import replace
from psycopg.rows import dict_row

from homing import Homing, Retention
from homing.domain.delivery import Delivery
from homing.ports import Alert
from homing.testing.clocks import ManualClock
from homing_systems.events import TerminalHandlerError
from homing_systems.events.record import LAYOUT


class Outbox:
    """A database, a plain connection to it, and programs on it."""

    def __init__(self, url: str, connection: psycopg.Connection[Any]) -> None:
        self.url = url
        self.connection = connection

    def homing(self, **options: Any) -> Homing:
        """As a producer of the outbox writes it: nothing is removed, no key is free again."""
        given = {"worker": False, "layouts": {"events": LAYOUT}, **options}
        return Homing(self.url, retention=Retention.forever(), **given)

    def now_ms(self) -> int:
        return int(self.value("select extract(epoch from clock_timestamp()) * 1000"))

    def sql(self, statement: str, *given: object) -> list[dict[str, Any]]:
        with self.connection.cursor(row_factory=dict_row) as cursor:
            cursor.execute(statement.encode(), given or None)
            return cursor.fetchall() if cursor.description else []

    def value(self, statement: str, *given: object) -> Any:
        [row] = self.sql(statement, *given)
        [value] = row.values()
        return value

    def row(self, event_id: object) -> dict[str, Any]:
        [row] = self.sql("select * from core.outbox where event_id = %s", event_id)
        return row

    def enqueue(self, key: str = "k", event_type: str = "invoice.paid", **more: object) -> str:
        names = "".join(f", p_{name} => %s" for name in more)
        return str(
            self.value(
                f"select core.outbox_enqueue(%s, '{{\"n\": 1}}', %s{names})",
                event_type,
                key,
                *more.values(),
            )
        )

    @contextmanager
    def undone(self) -> Iterator[None]:
        """A transaction that is rolled back."""
        with self.connection.transaction(force_rollback=True):
            yield

    def replay(self, event_id: object, generation: int = 0, by: str = "ann") -> None:
        self.sql("select core.outbox_replay(%s, %s, %s)", event_id, generation, by)


class Bell:
    """An alarm that remembers."""

    def __init__(self) -> None:
        self.alerts: list[Alert] = []

    async def sound(self, alert: Alert) -> bool:
        self.alerts.append(alert)
        return True


def as_layout(row: dict[str, Any]) -> dict[str, Any]:
    """A row of the table in the types of the RecordLayout."""

    def plain(value: Any) -> Any:
        if isinstance(value, datetime):
            at = value.astimezone(UTC).isoformat(timespec="milliseconds")
            return at.replace("+00:00", "Z")
        return str(value) if isinstance(value, UUID) else value

    return {name: plain(value) for name, value in row.items()}


async def adopt(homing: Homing) -> None:
    """What others have written into the table."""
    await homing.engine.take_lines()


async def work(homing: Homing) -> None:
    """All that is due now."""
    await adopt(homing)
    await homing.engine.run_until_idle()


async def work_until_failed(homing: Homing, clock: ManualClock, times: int = 5) -> None:
    for _ in range(times):
        await work(homing)
        clock.advance(400)


def failing(*errors: Exception) -> Callable[[Any], Any]:
    """A handler that raises these in turn, and then works."""
    left = list(errors)

    async def handle(event: object) -> None:
        if left:
            raise left.pop(0)

    return handle


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


def plain(delivery: Delivery) -> Delivery:
    """Without what must differ between two events."""
    times = {"created_at_ms": 0, "updated_at_ms": 0, "due_at_ms": 0, "ended_at_ms": None}
    history = tuple(
        replace(cycle, replayed_at_ms=0, failed_at_ms=0, first_failed_at_ms=0)
        for cycle in delivery.failure_history
    )
    identity = {"id": "", "key": "", "parent_id": None, "version": 0, "receipt": None}
    return replace(delivery, **times, **identity, failure_history=history)


def contents(outbox: Outbox) -> list[list[dict[str, Any]]]:
    """Every row that a replay could change."""
    tables = ("homing_open", "homing_ended", "homing_records", "core.outbox", "homing_facts")
    return [outbox.sql(f"select t.* from {name} as t order by t::text") for name in tables]
