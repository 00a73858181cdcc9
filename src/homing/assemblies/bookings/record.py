"""A row of `email_outbox`, as its document describes it: written, and read back."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct
from msgspec.structs import replace

from homing.assemblies.bookings.payloads import EmailPayload
from homing.assemblies.bookings.route import LABELS, MAX_ATTEMPTS
from homing.content import addresses
from homing.domain.errors import InvalidRequest
from homing.domain.failure import Failure
from homing.domain.message import Email, Invitation, decode_message
from homing.engine.adopting import Foreign, Standing
from homing.engine.request import Request
from homing.stores.shape import Record, Shape, Stored, iso_utc, ms_from_iso


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
    email = _email(stored.content.payload)
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
        "next_retry_at": iso_utc(_next_retry_at_ms(stored)),
        "last_error": (failure.detail or failure.error_class) if failure else None,
        "created_at": iso_utc(delivery.created_at_ms),
    }


def _next_retry_at_ms(stored: Stored) -> int:
    """The column is never empty: while a try runs, and after the last one, it keeps its time."""
    delivery = stored.delivery
    if delivery.state == "pending" and delivery.due_at_ms is not None:
        return delivery.due_at_ms
    return stored.newest_attempt_at_ms or delivery.ended_at_ms or delivery.created_at_ms


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
    next_retry_at_ms = ms_from_iso(row["next_retry_at"], "next_retry_at")
    standing = Standing(
        created_at_ms=ms_from_iso(row["created_at"], "created_at"),
        updated_at_ms=next_retry_at_ms,
        due_at_ms=next_retry_at_ms,
        attempts_spent=row["attempts"],
        max_attempts=None if row["max_attempts"] == MAX_ATTEMPTS else row["max_attempts"],
        failure=None
        if row["last_error"] is None
        else Failure("imported", detail=row["last_error"]),
    )
    request = Request(message=payload.email, delivery_id=row["id"])
    return Foreign(request, _standing_as(row["status"], standing))


def _standing_as(word: str, standing: Standing) -> Standing:
    if word == "pending":
        return standing
    if word == "failed":
        return replace(standing, state="failed", failed_because="exhausted")
    raise InvalidRequest("status", f"{word!r} is neither pending nor failed")


def _email(payload: bytes) -> Email:
    message = decode_message(payload)
    if not isinstance(message, Email):
        raise InvalidRequest("payload", "is not an e-mail")
    return message


SHAPE = Shape(
    names={"table": "email_outbox", "due_index": "idx_email_outbox_pending"},
    fields=OutboxEntry.__struct_fields__,
    labels=LABELS,
    write=_write,
    read=_read,
)
