"""What the console shows of a calendar invitation."""

from __future__ import annotations

from homing.content.ics import Meeting as Planned
from homing.content.ics import invitation
from homing.web.console.invitations import Moment, meeting_of

EVENT = "BEGIN:VCALENDAR\r\nBEGIN:VEVENT\r\n{lines}\r\nEND:VEVENT\r\nEND:VCALENDAR\r\n"


def test_what_is_built_here_is_read_back() -> None:
    planned = Planned(
        uid="7@clinic",
        summary='Check, with "Dr. Lee"; bring the card',
        organizer="desk@clinic.example.org",
        attendees=("ann@example.org", "bob@example.org"),
        start_ms=1_795_000_200_000,
        end_ms=1_795_002_000_000,
        stamp_ms=0,
        location="A room whose name is longer than one line of a calendar may be, on floor 3",
    )

    read = meeting_of(invitation(planned).ics)

    assert read is not None
    assert (read.summary, read.location) == (planned.summary, planned.location)
    assert (read.organizer, read.attendees) == (planned.organizer, planned.attendees)
    assert read.starts is not None
    assert read.starts.at_ms == planned.start_ms


def test_a_local_time_keeps_the_name_of_its_zone() -> None:
    lines = "DTSTART;TZID=Europe/Berlin:20261124T100000\r\nDTEND;VALUE=DATE:20261125"

    read = meeting_of(EVENT.format(lines=lines))

    assert read is not None
    assert read.starts == Moment(None, "2026-11-24 10:00 Europe/Berlin")
    assert read.ends == Moment(None, "2026-11-25")


def test_a_colon_in_a_quoted_parameter_is_not_the_end_of_it() -> None:
    lines = 'ORGANIZER;CN="Clinic: front desk":mailto:desk@clinic.example.org'

    read = meeting_of(EVENT.format(lines=lines))

    assert read is not None
    assert read.organizer == "desk@clinic.example.org"


def test_text_without_an_event_has_no_meeting() -> None:
    assert meeting_of("BEGIN:VCALENDAR\r\nEND:VCALENDAR") is None
    assert meeting_of("nothing of the kind") is None
