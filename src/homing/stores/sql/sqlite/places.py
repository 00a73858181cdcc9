"""The rows of the deliveries that this process holds, and their stored records.

A claim returns the row of a delivery and its record. While the stored version is the same, so is
the record: a save can name the row instead of looking for it, and leave the record out if only
columns change. The save itself proves that the version is the same.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol, TypeAlias

from msgspec.structs import replace

from homing.domain.delivery import Delivery
from homing.domain.writes import Write


class Saved(Protocol):
    """A write that was executed, or found to be lost."""

    write: Write
    seq: int | None
    kept: bool


Place: TypeAlias = tuple[int, Delivery]

# More than any process holds at once. A forgotten row is looked up.
MOST_PLACES = 16_384


class Places:
    """A cache: a missing or outdated entry costs one more read, nothing else."""

    def __init__(self) -> None:
        self._places: dict[str, Place] = {}

    def remember(self, delivery: Delivery, seq: int) -> None:
        places = self._places
        places[delivery.id] = (seq, delivery)
        if len(places) > MOST_PLACES:
            del places[next(iter(places))]

    def of(self, write: Write) -> Place | None:
        """Its row, if the version that was read is the one known here."""
        place = self._places.get(write.delivery.id)
        if place is None or place[1].version != write.over:
            return None
        return place

    def saved(self, entries: Iterable[Saved]) -> None:
        """What is still in flight is known by its next version."""
        for entry in entries:
            delivery = entry.write.delivery
            if entry.kept and entry.seq is not None and delivery.state == "in_flight":
                self.remember(replace(delivery, version=delivery.version + 1), entry.seq)
            else:
                self._places.pop(delivery.id, None)
