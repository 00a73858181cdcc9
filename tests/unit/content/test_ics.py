"""Invitations: B-006, B-019, B-020, B-048, B-056."""

from datetime import UTC, datetime

import pytest
from icalendar import Calendar, vCalAddress
from msgspec.structs import replace

from homing.content.ics import Meeting, check_invitation, invitation
from homing.content.limits import DEFAULT, Limits
from homing.domain.errors import InvalidRequest
from homing.domain.message import Invitation

MEETING = Meeting(
    uid="booking-42@example.org",
    summary="Besuch; mit Änne, um zehn",
    organizer='"Desk, Front" <desk@example.org>',
    attendees=("Ann <ann@bücher.example>", "bob@example.org"),
    start_ms=1_700_000_000_999,
    end_ms=1_700_003_600_000,
    stamp_ms=1_699_000_000_000,
    sequence=3,
    location="Room 1",
    description="Line one\nLine two: https://example.org/" + "x" * 100,
)


@pytest.mark.parametrize(("method", "status"), [("REQUEST", "CONFIRMED"), ("CANCEL", "CANCELLED")])
def test_a_calendar_reads_the_meeting_back(method: str, status: str) -> None:
    made = invitation(MEETING, method)  # type: ignore[arg-type]  # parametrized
    assert made.method == method
    calendar = Calendar.from_ical(made.ics)
    assert calendar["METHOD"] == method
    (event,) = calendar.events
    assert event["UID"] == MEETING.uid
    assert event["SEQUENCE"] == 3
    assert event["STATUS"] == status
    assert event["SUMMARY"] == MEETING.summary
    assert event["LOCATION"] == "Room 1"
    assert event["DESCRIPTION"] == MEETING.description
    assert event.decoded("DTSTART") == datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC)
    assert event.decoded("DTEND") == datetime(2023, 11, 14, 23, 13, 20, tzinfo=UTC)
    assert event["ORGANIZER"] == "mailto:desk@example.org"
    assert isinstance(event["ORGANIZER"], vCalAddress)
    assert event["ORGANIZER"].params["CN"] == "Desk, Front"
    assert event["ATTENDEE"] == ["mailto:ann@xn--bcher-kva.example", "mailto:bob@example.org"]


def test_the_same_meeting_gives_the_same_text() -> None:
    """M-007, R-016: no clock is read and nothing is rolled."""
    assert invitation(MEETING) == invitation(MEETING)


def test_our_own_invitations_pass_the_gate() -> None:
    made = invitation(MEETING)
    assert check_invitation(made, DEFAULT) == made
    assert check_invitation(replace(made, method="request"), DEFAULT).method == "REQUEST"


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"uid": ""}, "uid"),
        ({"uid": "a\r\nATTENDEE:x"}, "uid"),
        ({"summary": "a\nb"}, "summary"),
        ({"location": "a\u2028b"}, "location"),
        ({"end_ms": 0}, "end_ms"),
        ({"organizer": "desk"}, "organizer"),
        ({"attendees": ("ann@example.org", "bob\r\n@x.y")}, "attendees[1]"),
    ],
)
def test_a_wrong_meeting_names_its_field(change: dict[str, object], field: str) -> None:
    with pytest.raises(InvalidRequest) as refusal:
        invitation(replace(MEETING, **change))
    assert refusal.value.field == field


CALENDAR = "BEGIN:VCALENDAR\r\nMETHOD:REQUEST\r\n{}END:VCALENDAR\r\n"
EVENT = "BEGIN:VEVENT\r\nUID:1\r\nEND:VEVENT\r\n"


@pytest.mark.parametrize(
    ("ics", "problem"),
    [
        ("", "not an iCalendar"),
        ("hello canary", "not an iCalendar"),
        ("BEGIN:VCALENDAR\r\nMETHOD:REQUEST\r\n", "not an iCalendar"),
        (EVENT, "not a VCALENDAR"),
        (f"BEGIN:VCALENDAR\r\n{EVENT}END:VCALENDAR\r\n", "METHOD once"),
        (f"BEGIN:VCALENDAR\r\nMETHOD:CANCEL\r\n{EVENT}END:VCALENDAR\r\n", "another METHOD"),
        (
            f"BEGIN:VCALENDAR\r\nMETHOD:REQUEST\r\nMETHOD:CANCEL\r\n{EVENT}END:VCALENDAR\r\n",
            "METHOD once",
        ),
        ("BEGIN:VCALENDAR\r\nMETHOD:REQUEST\r\nEND:VCALENDAR\r\n", "no event"),
        (
            CALENDAR.format(EVENT.replace("UID:1", "DTSTART:canary")),
            "cannot be read",
        ),
        ("BEGIN:VCALENDAR\x00", "control character"),
        ("x" * (2**18 + 1), "too large"),
    ],
)
def test_what_is_not_a_calendar_of_that_method_is_refused(ics: str, problem: str) -> None:
    with pytest.raises(InvalidRequest, match=problem) as refusal:
        check_invitation(Invitation(ics, "REQUEST"), DEFAULT)
    assert refusal.value.field == "invitation.ics"
    assert "canary" not in str(refusal.value)
    assert refusal.value.__cause__ is None


def test_only_itip_methods_are_known() -> None:
    with pytest.raises(InvalidRequest, match=r"invitation\.method"):
        check_invitation(Invitation("x", "DELETE"), Limits())
