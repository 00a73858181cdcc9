"""What a claim has seen of the facts about its deliveries.

Before handlers are called, the engine asks which of the claimed deliveries have a fact that says so
already (`known_facts`). Nearly always there is none, and the claim has seen that: the question then
needs no round trip of its own.
"""

from __future__ import annotations

from collections.abc import Sequence

from homing.ports import Claimed
from homing.stores.sql.columns import Row
from homing.stores.sql.postgres.claiming import HAS_FACTS

# The engine asks at once. Later another program may have written such a fact.
TRUSTED_S = 0.5
# More than any process claims in that time.
_MOST_SEEN = 16_384
NEVER_S = float("-inf")


class ClaimedFacts:
    """Facts about a delivery have keys that begin with its id, or its parent's, and a slash."""

    def __init__(self) -> None:
        # The kind that was asked for last: claims look for it.
        self.kind: str | None = None
        self._without: dict[str, float] = {}

    def see(self, rows: Sequence[Row], claimed: Sequence[Claimed], asked_at_s: float) -> None:
        """`asked_at_s` is when the claim began."""
        without = self._without
        if len(without) > _MOST_SEEN:
            without.clear()
        for row, one in zip(rows, claimed, strict=True):
            for delivery_id in (row[0], one.delivery.parent_id):
                if delivery_id is None:
                    continue
                if row[HAS_FACTS]:
                    without.pop(delivery_id, None)
                else:
                    without[delivery_id] = asked_at_s

    def has_none(self, kind: str, keys: Sequence[str], now_s: float) -> bool:
        """Whether a claim has just seen that there are no such facts."""
        if kind != self.kind:
            self.kind = kind
            self._without = {}
            return False
        since_s = now_s - TRUSTED_S
        take = self._without.pop
        # All of them are taken out: the answer holds for this question alone.
        seen = [take(key.partition("/")[0], NEVER_S) for key in keys]
        return bool(seen) and min(seen) >= since_s
