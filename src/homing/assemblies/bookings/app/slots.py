"""The times that visitors are offered: on weekdays, from 09:00 to 17:00 UTC."""

from __future__ import annotations

from collections.abc import Collection
from datetime import UTC, date, datetime, time, timedelta

from msgspec import Struct

OPENS = time(9, tzinfo=UTC)
CLOSES = time(17, tzinfo=UTC)
DAYS_OFFERED = 10
SATURDAY = 5


class Slot(Struct, frozen=True):
    """`start` is ISO 8601 in UTC, as `POST /api/book` takes it."""

    start: str
    free: bool


def days_from(now: datetime) -> list[date]:
    """The next weekdays, from tomorrow."""
    following = (now.date() + timedelta(days=n) for n in range(1, 2 * DAYS_OFFERED))
    return [day for day in following if day.weekday() < SATURDAY][:DAYS_OFFERED]


def slots_of(day: date, length: timedelta, taken: Collection[tuple[datetime, datetime]]) -> list[Slot]:
    """`taken` has the starts and ends of what is booked."""
    start, end = datetime.combine(day, OPENS), datetime.combine(day, CLOSES)
    slots = []
    while start + length <= end:
        free = all(start + length <= begins or start >= ends for begins, ends in taken)
        slots.append(Slot(f"{start:%Y-%m-%dT%H:%M:%SZ}", free))
        start += length
    return slots
