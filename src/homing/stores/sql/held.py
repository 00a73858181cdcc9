"""The records of the deliveries that this process has claimed, as they are stored.

While the stored version is the same, so is the record: a save can leave it out if only columns
change, and need not look for its row. The save itself proves that the version is the same.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from homing.domain.delivery import Delivery
from homing.stores.judging import Effect

# More than any process holds at once. A forgotten record is read again.
MOST_HELD = 16_384


class HeldRecords:
    """A cache: a missing or outdated entry costs one more read, nothing else.

    `rows` has the number of a record's row, for a database that numbers rows.
    """

    def __init__(self) -> None:
        self.records: dict[str, Delivery] = {}
        self.rows: dict[str, int] = {}

    def remember(self, delivery: Delivery, row: int = 0) -> None:
        records, delivery_id = self.records, delivery.id
        records[delivery_id] = delivery
        self.rows[delivery_id] = row
        if len(records) > MOST_HELD:
            self.forget(next(iter(records)))

    def forget(self, delivery_id: str) -> None:
        if self.records.pop(delivery_id, None) is not None:
            del self.rows[delivery_id]

    def learn(self, effects: Mapping[str, Effect], rows: Mapping[str, int] | None = None) -> None:
        """What was committed: what is still in flight is known by its next version."""
        for delivery_id, effect in effects.items():
            after = effect.after
            if after is not None and after.state == "in_flight":
                if after.version != effect.version:
                    after = replace(after, version=effect.version)
                self.remember(after, 0 if rows is None else rows[delivery_id])
            elif effect.before is not None:
                self.forget(delivery_id)
