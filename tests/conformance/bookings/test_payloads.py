"""The mails themselves: what they say, and that every way to send uses the same builder."""

from __future__ import annotations

from pathlib import Path

import pytest

from homing.testing.clocks import ManualClock
from homing_systems.bookings.payloads import (
    Booking,
    EmailPayload,
    NotificationConfig,
    build_cancellation_payload,
    build_confirmation_payload,
    send_payload,
)
from tests.conformance.bookings.site import SENDER, Site
from tests.conformance.world import START_MS

CONFIG = NotificationConfig(host=SENDER, bcc="boss@example.org")
BOOKING = Booking(
    id="0b0e4d5e-5c1e-4e0e-9d0a-5f3f0d9f8d11",
    name="Ann Lee",
    email="ann@example.org",
    title="Call",
    start_ms=START_MS + 86_400_000,
    end_ms=START_MS + 86_400_000 + 1_800_000,
    created_at_ms=START_MS,
)
FACTS = "What: Call\nWhen: Tuesday, 24 February 2026, 10:00 UTC\n"
INVITATION = """\
BEGIN:VCALENDAR
VERSION:2.0
PRODID:-//Homing//Homing//EN
METHOD:{method}
BEGIN:VEVENT
SUMMARY:Call
DTSTART:20260224T100000Z
DTEND:20260224T103000Z
DTSTAMP:{stamp}
UID:0b0e4d5e-5c1e-4e0e-9d0a-5f3f0d9f8d11@example.org
SEQUENCE:{sequence}
ATTENDEE;CN="Ann Lee";PARTSTAT=NEEDS-ACTION;ROLE=REQ-PARTICIPANT;RSVP=TRUE:
 mailto:ann@example.org
{location}ORGANIZER;CN=Host:mailto:host@example.org
STATUS:{status}
END:VEVENT
END:VCALENDAR
"""


def lines_of(payload: EmailPayload) -> set[str]:
    """Unfolded; the order of properties is the library's own."""
    assert payload.ics_attachment is not None
    return set(payload.ics_attachment.ics.replace("\r\n ", "").split("\r\n"))


def golden(**words: object) -> set[str]:
    return set(INVITATION.format(**words).replace("\n ", "").split("\n"))


@pytest.mark.parametrize("link", [None, "https://video.example/ann"])
def test_a_confirmation_with_and_without_a_link(link: str | None) -> None:
    """B-055, B-056"""
    payload = build_confirmation_payload(CONFIG, BOOKING, link)

    assert (payload.to_address, payload.to_name) == ("ann@example.org", "Ann Lee")
    assert payload.subject == "Booked: Call, 2026-02-24 10:00 UTC"
    more = f"Video call: {link}\n" if link else ""
    assert payload.body == f"Hello Ann Lee,\n\nyour booking is confirmed.\n\n{FACTS}{more}"
    assert payload.bcc == "boss@example.org"
    assert lines_of(payload) == golden(
        method="REQUEST",
        stamp="20260223T100000Z",
        sequence=0,
        location=f"LOCATION:{link}\n" if link else "",
        status="CONFIRMED",
    )


@pytest.mark.parametrize("by_host", [True, False])
def test_a_cancellation_by_the_host_or_not(by_host: bool) -> None:
    """B-057"""
    payload = build_cancellation_payload(CONFIG, BOOKING, by_host, START_MS + 60_000)

    who = "the host has cancelled your booking" if by_host else "your booking is cancelled"
    assert payload.subject == "Cancelled: Call, 2026-02-24 10:00 UTC"
    assert payload.body == f"Hello Ann Lee,\n\n{who}.\n\n{FACTS}"
    assert lines_of(payload) == golden(
        method="CANCEL",
        stamp="20260223T100100Z",
        sequence=1,
        location="",
        status="CANCELLED",
    )


async def test_sending_gives_nothing_or_an_error_text(tmp_path: Path, clock: ManualClock) -> None:
    """B-058"""
    payload = build_confirmation_payload(CONFIG, BOOKING)
    async with Site(tmp_path, clock).running() as site:
        assert await send_payload(site.service, payload) is None
        site.smtp.answer("451")
        problem = await send_payload(site.service, payload)
        assert isinstance(problem, str)
        assert problem == site.row()["last_error"]
    assert isinstance(await send_payload(site.service, payload), str)


async def test_inline_and_queued_mail_have_the_same_bytes(
    tmp_path: Path, clock: ManualClock
) -> None:
    """B-011, B-059"""
    async with Site(tmp_path, clock, "451").running() as site:
        await send_payload(site.service, build_confirmation_payload(CONFIG, BOOKING))
        await site.work_after(30)

    inline, queued = site.smtp.calls
    assert inline.data == queued.data
    assert site.smtp.accepted == [queued]
