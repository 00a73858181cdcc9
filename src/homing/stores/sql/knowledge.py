"""What a transaction has read so far for the judge: read what is missing, and judge again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from homing.domain.delivery import Delivery, Key
from homing.ports import Put
from homing.stores.judging import Judged, KeyName, Known, judge
from homing.stores.sql.columns import delivery_of
from homing.stores.sql.ledger import Implied

# A round finds out about the children of those of the round before: no family is so deep.
MOST_ROUNDS = 64


class Knowledge:
    """`judge` returns what to write, or what to look up first.

    What was looked up is taken to be absent unless a row of it is noted before the next round.
    `implied` has the attempts that the records imply, by id.
    """

    def __init__(
        self, held: Mapping[str, Delivery] | None = None, *, assumes_free: bool = False
    ) -> None:
        self._deliveries: dict[str, Delivery | None] = {}
        self._keys: dict[KeyName, Key | None] = {}
        self._taken: dict[str, bool] = {}
        self._known = Known(
            self._deliveries, self._keys, held or {}, self._taken, assumes_free=assumes_free
        )
        self.implied: dict[str, Implied] = {}
        self._rounds = 0

    def judge(self, puts: Sequence[Put]) -> Judged:
        """Look up what it lacks, note it and call this again, until the answer is complete."""
        self._rounds += 1
        if self._rounds > MOST_ROUNDS:
            raise RuntimeError(f"{MOST_ROUNDS} rounds of reading were not enough")
        judged = judge(puts, self._known)
        self._deliveries |= dict.fromkeys(judged.missing_records)
        self._taken |= dict.fromkeys(judged.missing_ids, False)
        self._keys |= dict.fromkeys(judged.missing_keys)
        return judged

    def note_record(
        self, record: str | bytes, fresh: Sequence[Any], implied: Implied | None = None
    ) -> Delivery:
        """`fresh` in the order of FRESH."""
        delivery = delivery_of(record, fresh)
        self._deliveries[delivery.id] = delivery
        if implied is not None:
            self.implied[delivery.id] = implied
        return delivery

    def note_taken(self, delivery_id: str) -> None:
        self._taken[delivery_id] = True

    def note_key(self, key: Key) -> None:
        self._keys[key.source, key.key] = key

    def stored(self, delivery_id: str) -> Delivery | None:
        """As it was read."""
        return self._deliveries.get(delivery_id)

    def replaced(self, judged: Judged) -> list[Key]:
        """The keys that are stored under the names of those that are put."""
        return [key for name in judged.keys if (key := self._keys.get(name)) is not None]
