"""What a calendar invitation says: the meeting, when, where, and who is asked."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime

from msgspec import Struct

# An invitation has some twenty lines; of a longer one the rest is not looked at.
MAX_LINES = 500
_FOLDED = re.compile(r"\r?\n[ \t]")
_ESCAPED = re.compile(r"\\([\\;,nN])")


class Moment(Struct, frozen=True):
    """A time in UTC, or the words of a local one: its zone may be the calendar's own."""

    at_ms: int | None
    words: str


class Meeting(Struct, frozen=True, kw_only=True):
    summary: str = ""
    starts: Moment | None = None
    ends: Moment | None = None
    location: str = ""
    organizer: str = ""
    attendees: tuple[str, ...] = ()


def meeting_of(ics: str) -> Meeting | None:
    """The first event of a calendar; None if there is none."""
    texts: dict[str, str] = {}
    times: dict[str, Moment] = {}
    attendees: list[str] = []
    inside = False
    for name, parameters, value in _lines(ics):
        if name == "BEGIN" and value.upper() == "VEVENT":
            inside = True
        elif name == "END" and value.upper() == "VEVENT":
            break
        elif not inside:
            continue
        elif name == "ATTENDEE":
            attendees.append(_address(value))
        elif name == "ORGANIZER":
            texts["organizer"] = _address(value)
        elif name in ("SUMMARY", "LOCATION"):
            texts[name.lower()] = _plain(value)
        elif name in ("DTSTART", "DTEND"):
            times["starts" if name == "DTSTART" else "ends"] = _moment(value, parameters)
    if not inside:
        return None
    return Meeting(
        summary=texts.get("summary", ""),
        starts=times.get("starts"),
        ends=times.get("ends"),
        location=texts.get("location", ""),
        organizer=texts.get("organizer", ""),
        attendees=tuple(attendees),
    )


def _lines(ics: str) -> Iterator[tuple[str, str, str]]:
    """Name, parameters and value of each line; a colon in quotes is part of a parameter."""
    for line in _FOLDED.sub("", ics).splitlines()[:MAX_LINES]:
        quoted = False
        for at, character in enumerate(line):
            if character == '"':
                quoted = not quoted
            elif character == ":" and not quoted:
                name, _, parameters = line[:at].partition(";")
                yield name.upper(), parameters, line[at + 1 :]
                break


def _moment(value: str, parameters: str) -> Moment:
    for form, has_time in (("%Y%m%dT%H%M%SZ", True), ("%Y%m%dT%H%M%S", True), ("%Y%m%d", False)):
        try:
            at = datetime.strptime(value, form).replace(tzinfo=UTC)
        except ValueError:
            continue
        if value.endswith("Z"):
            return Moment(round(at.timestamp() * 1000), value)
        zone = re.search(r"(?i)TZID=\"?([^;\"]{1,60})", parameters)
        words = at.strftime("%Y-%m-%d %H:%M" if has_time else "%Y-%m-%d")
        return Moment(None, f"{words} {zone[1]}" if zone else words)
    return Moment(None, value[:40])


def _plain(value: str) -> str:
    return _ESCAPED.sub(lambda found: "\n" if found[1] in "nN" else found[1], value)


def _address(value: str) -> str:
    return value[7:] if value.lower().startswith("mailto:") else value
