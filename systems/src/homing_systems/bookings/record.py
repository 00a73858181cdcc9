"""A row of `email_outbox`, as its document describes it: written, and read back."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

from homing import Homing, Request
from homing.content import addresses
from homing.domain.delivery import Delivery
from homing.domain.errors import InvalidRequest, NotAllowed
from homing.domain.failure import Failure
from homing.domain.message import Invitation, decode_email
from homing.domain.shown import Table
from homing.plugins import Foreign, ForeignState
from homing.stores.layout import Record, RecordLayout, Stored, iso_utc, ms_from_iso
from homing_systems.bookings.payloads import EmailPayload
from homing_systems.bookings.route import LABELS, MAX_ATTEMPTS

TABLE = "email_outbox"


class OutboxStatus(StrEnum):
    PENDING = "pending"
    FAILED = "failed"


class OutboxEntry(Struct, frozen=True, kw_only=True):
    """A row of `email_outbox`, field for field. Times are ISO 8601 in UTC."""

    id: str
    to_address: str
    to_name: str
    subject: str
    body: str
    bcc: str | None = None
    ics_content: str | None = None
    ics_method: str | None = None
    status: OutboxStatus = OutboxStatus.PENDING
    attempts: int = 0
    max_attempts: int = MAX_ATTEMPTS
    next_retry_at: str
    last_error: str | None = None
    created_at: str


def _write(stored: Stored) -> Record:
    delivery = stored.delivery
    email = decode_email(stored.content.payload)
    person = addresses.parse(email.to[0])
    failure = delivery.failure
    return {
        "id": delivery.id,
        "to_address": person.spec,
        "to_name": person.name,
        "subject": email.subject,
        "body": email.text,
        "bcc": ", ".join(email.bcc) or None,
        "ics_content": email.invitation.ics if email.invitation else None,
        "ics_method": email.invitation.method if email.invitation else None,
        "status": LABELS.word(delivery),
        "attempts": delivery.attempts_spent,
        "max_attempts": delivery.max_attempts or MAX_ATTEMPTS,
        "next_retry_at": iso_utc(
            stored.next_attempt_at_ms or delivery.ended_at_ms or delivery.created_at_ms
        ),
        "last_error": (failure.detail or failure.error_class) if failure else None,
        "created_at": iso_utc(delivery.created_at_ms),
    }


def _read(row: Record) -> Foreign:
    """A row that another program wrote: it continues with the attempts and times it has."""
    ics = row["ics_content"]
    payload = EmailPayload(
        to_address=row["to_address"],
        to_name=row["to_name"],
        subject=row["subject"],
        body=row["body"],
        bcc=row["bcc"],
        ics_attachment=None if ics is None else Invitation(ics, row["ics_method"] or "REQUEST"),
    )
    status = row["status"]
    if status not in LAYOUT.words:
        raise InvalidRequest("status", f"{status!r} is neither pending nor failed")
    next_retry_at_ms = ms_from_iso(row["next_retry_at"], "next_retry_at")
    error, budget = row["last_error"], row["max_attempts"]
    foreign_state = ForeignState(
        state=status,
        failed_because="exhausted" if status == OutboxStatus.FAILED else None,
        created_at_ms=ms_from_iso(row["created_at"], "created_at"),
        updated_at_ms=next_retry_at_ms,
        due_at_ms=next_retry_at_ms,
        attempts_spent=row["attempts"],
        max_attempts=None if budget == MAX_ATTEMPTS else budget,
        failure=None if error is None else Failure("imported", detail=error),
    )
    return Foreign(Request(message=payload.email, delivery_id=row["id"]), foreign_state)


async def _follow(homing: Homing, mail: Delivery, row: Record | None, by: str) -> None:
    """A failed mail is dismissed if its row was deleted, and retried if that is pending again."""
    is_retried = row is not None and row["status"] == OutboxStatus.PENDING
    if mail.state != "failed" or not (row is None or is_retried):
        raise NotAllowed("only a failed row is deleted or made pending: it is written again")
    verb = homing.ops.replay if is_retried else homing.ops.dismiss
    await verb(mail.id, actor=by or TABLE, reason=TABLE)


LAYOUT = RecordLayout(
    names={"table": TABLE, "due_index": "idx_email_outbox_pending"},
    fields=OutboxEntry.__struct_fields__,
    labels=LABELS,
    write=_write,
    table=Table(TABLE, "id", lambda _: True),
    read=_read,
    follow=_follow,
)
