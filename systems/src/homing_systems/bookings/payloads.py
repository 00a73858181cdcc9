"""The mails of bookings, complete and ready to send: one builder each, for every way to send."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from msgspec import Struct

from homing.content import addresses
from homing.content.ics import Meeting, Method, invitation
from homing.domain.errors import HomingError
from homing.domain.message import Email, Invitation
from homing.plugins import Service
from homing_systems.bookings.route import NAME

SUBJECTS: dict[Method, str] = {"REQUEST": "Booked", "CANCEL": "Cancelled"}


class Booking(Struct, frozen=True, kw_only=True):
    """An appointment of a visitor; its `id` is a UUID."""

    id: str
    name: str
    email: str
    title: str
    start_ms: int
    end_ms: int
    created_at_ms: int
    cancelled_at_ms: int | None = None


class NotificationConfig(Struct, frozen=True, kw_only=True):
    """Who invites, and who gets a hidden copy."""

    host: str
    bcc: str | None = None


class EmailPayload(Struct, frozen=True, kw_only=True):
    """A mail with nothing left to look up: later changes of the booking do not reach it."""

    to_address: str
    to_name: str
    subject: str
    body: str
    bcc: str | None = None
    ics_attachment: Invitation | None = None

    @property
    def email(self) -> Email:
        return Email(
            to=str(addresses.Address(self.to_address, self.to_name)),
            subject=self.subject,
            text=self.body,
            bcc=tuple(part.strip() for part in (self.bcc or "").split(",") if part.strip()),
            invitation=self.ics_attachment,
        )


def build_confirmation_payload(
    config: NotificationConfig, booking: Booking, video_link: str | None = None
) -> EmailPayload:
    """An invitation; the same booking gives the same mail."""
    sentence = "your booking is confirmed"
    return _payload(config, booking, "REQUEST", sentence, booking.created_at_ms, video_link)


def build_cancellation_payload(
    config: NotificationConfig,
    booking: Booking,
    cancelled_by_host: bool,  # noqa: FBT001 - the document gives the order of the arguments
    cancelled_at_ms: int,
) -> EmailPayload:
    """Takes the invitation back."""
    by_host = "the host has cancelled your booking"
    sentence = by_host if cancelled_by_host else "your booking is cancelled"
    return _payload(config, booking, "CANCEL", sentence, cancelled_at_ms)


async def send_payload(
    service: Service[Any], payload: EmailPayload, *, key: str | None = None, wait: bool = True
) -> str | None:
    """Record it and try it at once; None, or why it was not sent or (`wait=False`) not recorded.

    Mail that was recorded and not sent is in `email_outbox`, and the worker tries it again.
    """
    try:
        ticket = await service.homing.send(payload.email, route=NAME, key=key, wait=wait)
    except HomingError as error:
        return str(error)
    failure = ticket.delivery.failure
    return None if failure is None else failure.detail or failure.error_class


def _payload(
    config: NotificationConfig,
    booking: Booking,
    method: Method,
    sentence: str,
    at_ms: int,
    video_link: str | None = None,
) -> EmailPayload:
    start = datetime.fromtimestamp(booking.start_ms / 1000, UTC)
    meeting = Meeting(
        uid=f"{booking.id}@{addresses.parse(config.host).domain}",
        summary=booking.title,
        organizer=config.host,
        attendees=(str(addresses.Address(booking.email, booking.name)),),
        start_ms=booking.start_ms,
        end_ms=booking.end_ms,
        stamp_ms=at_ms,
        sequence=1 if method == "CANCEL" else 0,
        location=video_link or "",
    )
    facts = f"What: {booking.title}\nWhen: {start:%A, %d %B %Y, %H:%M} UTC\n"
    link = f"Video call: {video_link}\n" if video_link else ""
    return EmailPayload(
        to_address=booking.email,
        to_name=booking.name,
        subject=f"{SUBJECTS[method]}: {booking.title}, {start:%Y-%m-%d %H:%M} UTC",
        body=f"Hello {booking.name},\n\n{sentence}.\n\n{facts}{link}",
        bcc=config.bcc,
        ics_attachment=invitation(meeting, method),
    )
