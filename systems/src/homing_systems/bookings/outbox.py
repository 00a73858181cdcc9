"""The functions of the outbox, over a running service. Each gives a result and raises nothing.

The engine itself inserts, retries and removes rows; the functions that write do it by the same
transitions, for rows that no worker is sending.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import wraps
from typing import Any, Literal, ParamSpec, TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from homing.domain import transitions
from homing.domain.delivery import Change, Content, Delivery
from homing.domain.errors import HomingError, InvalidRequest, NotAllowed, NotFound
from homing.domain.failure import Failure
from homing.plugins import Service, add_foreign, now_ms, read_view
from homing.ports import Added
from homing.stores.layout import HIDDEN, Stored, iso_utc
from homing_systems.bookings.payloads import EmailPayload
from homing_systems.bookings.record import LAYOUT, OutboxEntry
from homing_systems.bookings.route import FIRST_DELAY_S, LABELS, NAME, PLAN

HOST = "host"

P = ParamSpec("P")
T = TypeVar("T")


class OutboxCounts(Struct, frozen=True):
    pending: int
    failed: int


class OutboxError(Struct, frozen=True):
    """`unknown`: no such row; `conflict`: its status or id does not allow it; `store`: not done."""

    kind: Literal["unknown", "conflict", "invalid", "store"]
    detail: str


# `indexed by` fails rather than read every row. What a worker is sending right now is not due.
DUE = """
select e.* from email_outbox as e indexed by idx_email_outbox_pending
left join homing_deliveries as d on d.id = e.id
where e.status = 'pending' and e.next_retry_at <= ? and coalesce(d.state, 'pending') = 'pending'
order by e.next_retry_at, e.created_at, e.id
"""
NEWEST = "select * from email_outbox order by created_at desc, id desc limit ?"
# What a worker is sending right now is shown as pending too.
COUNTS = """
select
    (select count(*) from email_outbox indexed by idx_email_outbox_pending
        where status = 'pending') as pending,
    (select count(*) from email_outbox where status = 'failed') as failed
"""


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
        except HomingError as error:
            return OutboxError("store", str(error))

    return call


@as_result
async def insert_outbox_entry(service: Service[Any], entry: OutboxEntry) -> None:
    """Store a row as it is given, with its times and attempts."""
    foreign = LAYOUT.parse(msgspec.to_builtins(entry))
    answer = await add_foreign(service.homing, NAME, foreign)
    if not isinstance(answer, Added):
        raise NotAllowed(f"there is a row {entry.id} already")


@as_result
async def get_pending_entries(service: Service[Any], now_ms: int) -> list[OutboxEntry]:
    """The rows that are due, by due time."""
    rows = await read_view(service.homing.store, DUE, iso_utc(now_ms))
    return msgspec.convert(rows, list[OutboxEntry])


@as_result
async def list_outbox_entries(service: Service[Any], limit: int = 1000) -> list[OutboxEntry]:
    """All rows, newest first."""
    rows = await read_view(service.homing.store, NEWEST, limit)
    return msgspec.convert(rows, list[OutboxEntry])


@as_result
async def get_outbox_counts(service: Service[Any]) -> OutboxCounts:
    [counts] = await read_view(service.homing.store, COUNTS)
    return OutboxCounts(**counts)


@as_result
async def mark_sent(service: Service[Any], entry_id: str) -> None:
    """Remove a pending row."""
    row, now_ms = await _claimed(service, entry_id)
    await _save(service, transitions.succeed(row, plan=PLAN, now_ms=now_ms, roll=0.0))


@as_result
async def mark_retry(
    service: Service[Any], entry_id: str, next_retry_at_ms: int, last_error: str
) -> None:
    """Count a failed attempt; the row stays pending until the given time."""
    row, now_ms = await _claimed(service, entry_id)
    failure = Failure("send_failed", detail=last_error)
    # The caller decides, not the budget of the row.
    more = replace(row, max_attempts=row.attempts_spent + 2)
    change = transitions.fail(more, failure, plan=PLAN, now_ms=now_ms, roll=0.0)
    after = replace(change.delivery, max_attempts=row.max_attempts, due_at_ms=next_retry_at_ms)
    await _save(service, replace(change, delivery=after))


@as_result
async def mark_failed(service: Service[Any], entry_id: str, last_error: str) -> None:
    """Count a failed attempt, and let it be the last."""
    row, now_ms = await _claimed(service, entry_id)
    failure = Failure("send_failed", "reject", detail=last_error)
    await _save(service, transitions.fail(row, failure, plan=PLAN, now_ms=now_ms, roll=0.0))


@as_result
async def retry_outbox_entry(service: Service[Any], entry_id: str) -> OutboxEntry:
    """Start over: a failed row becomes pending, is due now, and has five attempts again."""
    await _row(service, entry_id)
    # Read before, because the worker may send and remove it right after the replay.
    content = await service.homing.store.content(entry_id) or Content()
    replayed = await service.homing.ops.replay(entry_id, actor=HOST, reason="retried by the host")
    return msgspec.convert(LAYOUT.record(Stored(replayed, content)), OutboxEntry)


@as_result
async def dismiss_outbox_entry(service: Service[Any], entry_id: str) -> None:
    """Remove a failed row."""
    await _row(service, entry_id)
    await service.homing.ops.dismiss(entry_id, actor=HOST, reason="dismissed by the host")


async def _row(service: Service[Any], entry_id: str) -> Delivery:
    found = await service.homing.store.get(entry_id)
    if found is None or found.route != NAME or LABELS.word(found) == HIDDEN:
        raise NotFound(f"there is no row {entry_id}")
    return found


async def _claimed(service: Service[Any], entry_id: str) -> tuple[Delivery, int]:
    """As if a worker had claimed the row now; nothing is stored before the outcome."""
    at_ms = now_ms(service.homing)
    found = await _row(service, entry_id)
    if found.state != "pending":
        raise NotAllowed(f"row {entry_id} is not waiting for its next attempt")
    claimed = transitions.claim(found, holder=HOST, now_ms=at_ms, lease_until_ms=at_ms).delivery
    return replace(claimed, version=found.version), at_ms


async def _save(service: Service[Any], change: Change) -> None:
    [is_written] = await service.homing.store.save([change])
    if not is_written:
        raise NotAllowed(f"row {change.delivery.id} has changed in between")
