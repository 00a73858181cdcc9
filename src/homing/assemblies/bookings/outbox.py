"""The functions of the outbox, over a running service. Each gives a result and raises nothing.

The engine itself inserts, retries and removes rows; the functions that write do it by the same
transitions, for rows that no worker is sending.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Awaitable, Callable, Sequence
from contextlib import closing
from functools import wraps
from typing import Any, Literal, ParamSpec, TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import asdict, replace

from homing.assemblies.bookings.payloads import EmailPayload
from homing.assemblies.bookings.record import SHAPE, OutboxEntry, OutboxStatus
from homing.assemblies.bookings.route import FIRST_DELAY_S, MAX_ATTEMPTS, NAME, PLAN
from homing.assembly import Service
from homing.domain import transitions
from homing.domain.delivery import Change, Delivery
from homing.domain.errors import HomingError, InvalidRequest, NotAllowed, NotFound
from homing.domain.failure import Failure
from homing.engine.adopting import adopt
from homing.ports import Added, InFile
from homing.stores.shape import iso_utc

HOST = "host"
READ_TIMEOUT_S = 5.0
LIST_LIMIT = 1000

P = ParamSpec("P")
T = TypeVar("T")


class OutboxCounts(Struct, frozen=True):
    pending: int
    failed: int


class OutboxError(Struct, frozen=True):
    """`unknown`: no such row; `conflict`: its status or id does not allow it; `store`: not done."""

    kind: Literal["unknown", "conflict", "invalid", "store"]
    detail: str


COLUMNS = ", ".join(f"e.{name}" for name in SHAPE.fields)
# `indexed by` fails rather than read every delivery of the application's database.
PENDING = (
    "homing_deliveries as d indexed by idx_email_outbox_pending"
    " where d.route = 'bookings' and d.state = 'pending'"
)
DUE = f"""
select {COLUMNS} from (select d.id, d.due_at_ms, d.created_at_ms from {PENDING}
    and d.due_at_ms <= ?) as due
join email_outbox as e on e.id = due.id
order by due.due_at_ms, due.created_at_ms, due.id
"""  # noqa: S608 - of constants alone
NEWEST = f"select {COLUMNS} from email_outbox as e order by created_at desc, id desc limit ?"  # noqa: S608 - of constants alone
ONE = f"select {COLUMNS} from email_outbox as e where e.id = ?"  # noqa: S608 - of constants alone
# What a worker is sending right now is shown as pending too.
COUNTS = f"""
select
    (select count(*) from {PENDING} and d.due_at_ms >= 0)
    + (select count(*) from email_outbox where id in (
        select id from homing_deliveries where state = 'in_flight' and lane = 'bookings')),
    (select count(*) from homing_deliveries where state = 'failed' and route = 'bookings')
"""  # noqa: S608 - of constants alone


def compute_next_retry(now_ms: int, attempts: int) -> int:
    """`attempts` is the number of worker attempts made so far."""
    return now_ms + (round(FIRST_DELAY_S * 1000) << attempts)


def create_outbox_entry_from_payload(
    entry_id: str, payload: EmailPayload, now_ms: int
) -> OutboxEntry:
    invite = payload.ics_attachment
    return OutboxEntry(
        id=entry_id,
        to_address=payload.to_address,
        to_name=payload.to_name,
        subject=payload.subject,
        body=payload.body,
        bcc=payload.bcc,
        ics_content=None if invite is None else invite.ics,
        ics_method=None if invite is None else invite.method,
        next_retry_at=iso_utc(compute_next_retry(now_ms, 0)),
        created_at=iso_utc(now_ms),
    )


def as_result(function: Callable[P, Awaitable[T]]) -> Callable[P, Awaitable[T | OutboxError]]:
    """A refusal or a fault of the store becomes the result."""

    @wraps(function)
    async def call(*args: P.args, **kwargs: P.kwargs) -> T | OutboxError:
        try:
            return await function(*args, **kwargs)
        except NotFound as error:
            return OutboxError("unknown", str(error))
        except NotAllowed as error:
            return OutboxError("conflict", str(error))
        except InvalidRequest as error:
            return OutboxError("invalid", str(error))
        except (HomingError, sqlite3.Error) as error:
            return OutboxError("store", str(error))

    return call


@as_result
async def insert_outbox_entry(service: Service[Any], entry: OutboxEntry) -> None:
    """Store a row as it is given, with its times and attempts."""
    engine = service.homing.engine
    foreign = SHAPE.parse({**asdict(entry), "status": str(entry.status)})
    new = adopt(engine.admission.prepare(engine.routes[NAME], foreign.request), foreign.standing)
    [answer] = await service.homing.store.add([new])
    if not isinstance(answer, Added):
        raise NotAllowed(f"there is a row {entry.id} already")


@as_result
async def get_pending_entries(service: Service[Any], now_ms: int) -> Sequence[OutboxEntry]:
    """The rows that are due, by due time."""
    return await _entries(service, DUE, now_ms)


@as_result
async def list_outbox_entries(
    service: Service[Any], limit: int = LIST_LIMIT
) -> Sequence[OutboxEntry]:
    """All rows, newest first."""
    return await _entries(service, NEWEST, limit)


@as_result
async def get_outbox_counts(service: Service[Any]) -> OutboxCounts:
    [(pending, failed)] = await _rows(service, COUNTS)
    return OutboxCounts(pending, failed)


@as_result
async def mark_sent(service: Service[Any], entry_id: str) -> None:
    """Remove a pending row."""

    def sent(row: Delivery, now_ms: int) -> Change:
        return transitions.succeed(row, plan=PLAN, now_ms=now_ms, roll=0.0)

    await _change(service, entry_id, sent)


@as_result
async def mark_retry(
    service: Service[Any], entry_id: str, next_retry_at_ms: int, last_error: str
) -> None:
    """Count a failed attempt; the row stays pending until the given time."""

    def failed(row: Delivery, now_ms: int) -> Change:
        failure = Failure("send_failed", detail=last_error)
        more = replace(row, max_attempts=row.attempts_spent + 2)
        change = transitions.fail(more, failure, plan=PLAN, now_ms=now_ms, roll=0.0)
        after = replace(change.delivery, max_attempts=row.max_attempts, due_at_ms=next_retry_at_ms)
        return replace(change, delivery=after)

    await _change(service, entry_id, failed)


@as_result
async def mark_failed(service: Service[Any], entry_id: str, last_error: str) -> None:
    """Count a failed attempt, and let it be the last."""

    def failed(row: Delivery, now_ms: int) -> Change:
        failure = Failure("send_failed", "reject", detail=last_error)
        return transitions.fail(row, failure, plan=PLAN, now_ms=now_ms, roll=0.0)

    await _change(service, entry_id, failed)


@as_result
async def retry_outbox_entry(service: Service[Any], entry_id: str) -> OutboxEntry:
    """Start over: a failed row becomes pending, is due now, and has five attempts again."""
    before = await _entry(service, entry_id)
    await service.homing.desk.replay(entry_id, actor=HOST, reason="retried in the admin pages")
    now_ms = service.homing.engine.clock.now_ms()
    # The worker may send it before it could be read again.
    return replace(
        before,
        status=OutboxStatus.PENDING,
        attempts=0,
        max_attempts=MAX_ATTEMPTS,
        next_retry_at=iso_utc(now_ms),
        last_error=None,
    )


@as_result
async def dismiss_outbox_entry(service: Service[Any], entry_id: str) -> None:
    """Remove a failed row."""
    await _entry(service, entry_id)
    await service.homing.desk.dismiss(entry_id, actor=HOST, reason="dismissed in the admin pages")


async def _entry(service: Service[Any], entry_id: str) -> OutboxEntry:
    for entry in await _entries(service, ONE, entry_id):
        return entry
    raise NotFound(f"there is no row {entry_id}")


async def _entries(service: Service[Any], query: str, *given: object) -> Sequence[OutboxEntry]:
    rows = await _rows(service, query, *given)
    return [msgspec.convert(dict(zip(SHAPE.fields, row, strict=True)), OutboxEntry) for row in rows]


async def _rows(service: Service[Any], query: str, *given: object) -> list[tuple[Any, ...]]:
    """By a connection of its own, as any SQLite client reads the view."""
    store = service.homing.store
    if not isinstance(store, InFile):
        raise NotAllowed(
            "email_outbox is read from a SQLite file; HOMING_STORE names another store"
        )
    uri = f"{store.path.absolute().as_uri()}?mode=ro"

    def read() -> list[tuple[Any, ...]]:
        with closing(sqlite3.connect(uri, uri=True, timeout=READ_TIMEOUT_S)) as connection:
            return connection.execute(query, given).fetchall()

    return await asyncio.to_thread(read)


async def _change(
    service: Service[Any], entry_id: str, change: Callable[[Delivery, int], Change]
) -> None:
    """As if a worker had claimed the row and this were the outcome; one write."""
    now_ms = service.homing.engine.clock.now_ms()
    found = await service.homing.desk.show(entry_id)
    if found.route != NAME:
        raise NotFound(f"there is no row {entry_id}")
    if found.state != "pending":
        raise NotAllowed(f"row {entry_id} is not waiting for its next attempt")
    claimed = transitions.claim(found, holder=HOST, now_ms=now_ms, lease_until_ms=now_ms).delivery
    made = change(replace(claimed, version=found.version), now_ms)
    [is_written] = await service.homing.store.save([made])
    if not is_written:
        raise NotAllowed(f"row {entry_id} has changed in between")
