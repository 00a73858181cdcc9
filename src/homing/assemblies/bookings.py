"""Booking mails: sent while the request is handled, kept in `email_outbox` only if that failed.

The row is removed once the mail is sent; a host may retry or dismiss a dead letter.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from msgspec.structs import replace

from homing.assembly import Assembly, NoSettings, Setup, Sign
from homing.content import addresses
from homing.domain.errors import InvalidRequest
from homing.domain.failure import Failure
from homing.domain.message import Email, Invitation, decode_message
from homing.domain.policy import Exponential, Plan, Retention, Retry, Stage
from homing.engine.admitted import Admitted
from homing.engine.adopting import Foreign, Standing
from homing.engine.labels import Label, LabelTable
from homing.engine.request import Request
from homing.engine.route import Route, judge_as_is
from homing.engine.steps import SendStep
from homing.mail_route import Mailing
from homing.ports import Provider
from homing.stores.shape import HIDDEN, Record, Shape, Stored, iso_utc, ms_from_iso

NAME = "bookings"
SEND = "send"
FIRST_DELAY_S = 30.0
MAX_ATTEMPTS = 5
SEND_TIMEOUT_S = 30.0
POLL_S = 30.0

LABELS = LabelTable(
    (
        Label(HIDDEN, "in_flight", phase="inline"),
        Label(HIDDEN, "dismissed"),
        Label("pending", "pending"),
        Label("pending", "in_flight"),
        Label("failed", "failed"),
    )
)

PLAN = Plan(
    stages=(
        Stage(
            name=SEND,
            retry=Retry(Exponential(initial_s=FIRST_DELAY_S, first=1), MAX_ATTEMPTS),
            timeout_s=SEND_TIMEOUT_S,
            sends=True,
        ),
    ),
    on_doubt="resend",
    on_route_fault="retry",
    inline_counts=False,
    keep_delivered=False,
    notify_on_failed=(),
    retention=Retention(dismissed_s=0.0),
)


def bookings_route(
    provider: Provider, *, sender: str, senders: Sequence[str] = (), sign: Sign | None = None
) -> Route:
    """The mail is complete at intake: nothing of it is looked up or rendered later."""
    mailing = Mailing(sender, senders=senders)
    return Route(
        name=NAME,
        plan=PLAN,
        steps={SEND: SendStep(provider, mailing.freeze, sender=mailing.envelope_sender, sign=sign)},
        provider=provider,
        poll_s=POLL_S,
        admit=partial(admit_booking, mailing=mailing),
        judge=judge,
        verbs=frozenset({"replay", "dismiss"}),
        labels=LABELS,
    )


def admit_booking(message: Email, *, mailing: Mailing) -> Admitted:
    """`email_outbox` has a column for the one whom a mail is for."""
    admitted = mailing.admit(message)
    if not message.to:
        raise InvalidRequest("to", "is empty: give an address")
    return admitted


def routes(setup: Setup[NoSettings]) -> tuple[Route, ...]:
    general = setup.general
    route = bookings_route(
        setup.provider, sender=setup.sender, senders=general.senders, sign=setup.sign
    )
    return (route,)


def judge(problem: Exception | Failure, stage: Stage) -> Failure:
    """No refusal is permanent here: every answer of a mail server is tried again."""
    return replace(judge_as_is(problem, stage), disposition="retry")


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
    email = Email(
        to=str(addresses.Address(row["to_address"], row["to_name"])),
        subject=row["subject"],
        text=row["body"],
        bcc=tuple(part.strip() for part in (row["bcc"] or "").split(",") if part.strip()),
        invitation=None
        if row["ics_content"] is None
        else Invitation(row["ics_content"], row["ics_method"] or "REQUEST"),
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
    request = Request(message=email, delivery_id=row["id"])
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
    fields=(
        "id",
        "to_address",
        "to_name",
        "subject",
        "body",
        "bcc",
        "ics_content",
        "ics_method",
        "status",
        "attempts",
        "max_attempts",
        "next_retry_at",
        "last_error",
        "created_at",
    ),
    labels=LABELS,
    write=_write,
    read=_read,
)

ASSEMBLY = Assembly(
    name="bookings",
    about="Booking mails: sent while the request is handled, kept only if that failed.",
    settings=NoSettings,
    routes=routes,
    shapes={NAME: SHAPE},
)
