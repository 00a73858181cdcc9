"""Calendar invitations (iCalendar, iTIP): builds them, and checks those of a caller."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Literal, TypeAlias

from msgspec import Struct

from homing.content import addresses
from homing.content.characters import check_body, check_line, require_text
from homing.content.limits import Limits, too_large
from homing.domain.errors import InvalidRequest
from homing.domain.message import Invitation

if TYPE_CHECKING:
    from icalendar import Component, Event, vCalAddress

Method: TypeAlias = Literal["REQUEST", "CANCEL"]

# RFC 5546, section 1.4.
METHODS = frozenset(
    ("PUBLISH", "REQUEST", "REPLY", "ADD", "CANCEL", "REFRESH", "COUNTER", "DECLINECOUNTER")
)
PRODUCT = "-//Homing//Homing//EN"
_INVITED = {"ROLE": "REQ-PARTICIPANT", "PARTSTAT": "NEEDS-ACTION", "RSVP": "TRUE"}
_SCHEDULED = frozenset(("VEVENT", "VTODO", "VJOURNAL", "VFREEBUSY"))
_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Meeting(Struct, frozen=True, kw_only=True):
    """What an invitation says. A later change has the same `uid` and a higher `sequence`."""

    uid: str
    summary: str
    organizer: str
    attendees: tuple[str, ...]
    start_ms: int
    end_ms: int
    stamp_ms: int
    sequence: int = 0
    location: str = ""
    description: str = ""


def invitation(meeting: Meeting, method: Method = "REQUEST") -> Invitation:
    """The same meeting gives the same text: `stamp_ms` is the caller's, no clock is read."""
    # Imported late: it takes half a second, and few mails carry an invitation.
    from icalendar import Calendar  # noqa: PLC0415

    if method not in ("REQUEST", "CANCEL"):
        raise InvalidRequest("method", "must be REQUEST or CANCEL")
    calendar = Calendar()
    calendar.add("prodid", PRODUCT)
    calendar.add("version", "2.0")
    calendar.add("method", method)
    calendar.add_component(_event(meeting, "CANCELLED" if method == "CANCEL" else "CONFIRMED"))
    return Invitation(ics=calendar.to_ical().decode(), method=method)


def check_invitation(given: Invitation, limits: Limits) -> Invitation:
    """Refuse text that is not one calendar of the stated method; the text itself is kept."""
    from icalendar import Calendar  # noqa: PLC0415 - as above

    if not isinstance(given, Invitation):
        raise InvalidRequest("invitation", f"must be an Invitation, not {type(given).__name__}")
    method = require_text(given.method, "invitation.method").upper()
    if method not in METHODS:
        raise InvalidRequest("invitation.method", "is not an iTIP method such as REQUEST")
    ics = require_text(given.ics, "invitation.ics")
    if (size := len(ics.encode("utf-8", "replace"))) > limits.ics_bytes:
        raise too_large("invitation.ics", size, limits.ics_bytes, "bytes")
    check_body(ics, "invitation.ics")
    if _CONTROL.search(ics):
        raise InvalidRequest("invitation.ics", "holds a control character")
    try:
        calendar = Calendar.from_ical(ics)
    except Exception:  # whatever it trips over; its words quote the text, so they are dropped
        raise InvalidRequest("invitation.ics", "is not an iCalendar text") from None
    _check_calendar(calendar, method)
    return Invitation(ics=ics, method=method)


def _event(meeting: Meeting, status: str) -> Event:
    from icalendar import Event  # noqa: PLC0415 - as above

    if not meeting.uid:
        raise InvalidRequest("uid", "is empty")
    if meeting.end_ms < meeting.start_ms:
        raise InvalidRequest("end_ms", "is before start_ms")
    event = Event()
    event.add("sequence", meeting.sequence)
    for name in ("uid", "summary", "location", "description"):
        if text := getattr(meeting, name):
            if name != "description":
                check_line(text, name)
            event.add(name, text)
    for name, at_ms in (
        ("dtstamp", meeting.stamp_ms),
        ("dtstart", meeting.start_ms),
        ("dtend", meeting.end_ms),
    ):
        event.add(name, _EPOCH + timedelta(milliseconds=at_ms // 1000 * 1000))
    event.add("status", status)
    event.add("organizer", _person(meeting.organizer, "organizer"), encode=False)
    for index, attendee in enumerate(meeting.attendees):
        person = _person(attendee, f"attendees[{index}]")
        person.params.update(_INVITED)
        event.add("attendee", person, encode=False)
    return event


def _person(text: str, field: str) -> vCalAddress:
    from icalendar import vCalAddress  # noqa: PLC0415 - as above

    address = addresses.parse(text, field)
    person = vCalAddress(f"mailto:{address.spec}")
    if address.name:
        # A parameter cannot hold a double quote (RFC 5545, section 3.2).
        person.params["CN"] = address.name.replace('"', "'")
    return person


def _check_calendar(calendar: Component, method: str) -> None:
    if calendar.name != "VCALENDAR":
        raise InvalidRequest("invitation.ics", "is not a VCALENDAR")
    stated = calendar.get("METHOD")
    if stated is None or isinstance(stated, list):
        raise InvalidRequest("invitation.ics", "must state its METHOD once")
    if str(stated).upper() != method:
        raise InvalidRequest("invitation.ics", f"has another METHOD than {method}")
    if not any(component.name in _SCHEDULED for component in calendar.subcomponents):
        raise InvalidRequest("invitation.ics", "holds no event")
    if any(component.errors for component in calendar.walk()):
        raise InvalidRequest("invitation.ics", "has a property that cannot be read")
