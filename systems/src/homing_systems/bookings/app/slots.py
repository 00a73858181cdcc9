"""The times that visitors are offered: on weekdays, from 09:00 to 17:00 UTC."""

from __future__ import annotations

from collections.abc import Collection
from datetime import UTC, date, datetime, time, timedelta

from msgspec import Struct

from homing_systems.bookings.payloads import Booking

OPENS = time(9, tzinfo=UTC)
CLOSES = time(17, tzinfo=UTC)
DAYS_OFFERED = 10
SATURDAY = 5


class Slot(Struct, frozen=True):
    """`start` is ISO 8601 in UTC, as `POST /api/book` takes it."""

    start: str
    free: bool


def offered_days(now_ms: int) -> list[date]:
    """The next weekdays, from tomorrow."""
    today = datetime.fromtimestamp(now_ms / 1000, UTC).date()
    following = (today + timedelta(days=n) for n in range(1, 2 * DAYS_OFFERED))
    return [day for day in following if day.weekday() < SATURDAY][:DAYS_OFFERED]


def hours_of(day: date) -> tuple[datetime, datetime]:
    return datetime.combine(day, OPENS), datetime.combine(day, CLOSES)


def slots_of(day: date, length: timedelta, booked: Collection[Booking]) -> list[Slot]:
    """The slots of a day; one that overlaps a booking is not free."""
    start, end = hours_of(day)
    slots = []
    while start + length <= end:
        start_ms, end_ms = (round(at.timestamp() * 1000) for at in (start, start + length))
        free = all(end_ms <= each.start_ms or start_ms >= each.end_ms for each in booked)
        slots.append(Slot(f"{start:%Y-%m-%dT%H:%M:%SZ}", free))
        start += length
    return slots
