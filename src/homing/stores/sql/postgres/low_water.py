"""Where a claim begins to read, when old index entries lie in the way.

A transaction that stays open (a dump, a report) keeps dead rows from being removed, and every claim
reads past the entries of all that was claimed since it began. Once that takes long, large claims
begin at the smallest due time that was claimed last, less a margin. What is due before that (a
commit that came late, a retry in the past) waits for the next look at everything.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from homing.domain.delivery import FIRST_PRIORITY, LAST_PRIORITY
from homing.ports import Claim

PRIORITIES = range(FIRST_PRIORITY, LAST_PRIORITY + 1)
FROM_THE_START = -(2**63)
# A look is slow if it takes twice as long as a quick one, and not less than this.
SLOW_LOOK_S = 0.01
SLOW_RATIO = 2.0
# The machine may get slower: what counts as quick is forgotten little by little.
_FORGET = 1.01
LOOK_AT_ALL_EVERY_S = 2.0
MARGIN_MS = 250
# A small claim reads little: it can look at everything.
SMALLEST_CLAIM = 128


class LowWater:
    """The marks of one process, by queue and priority."""

    def __init__(self, steady_s: Callable[[], float]) -> None:
        self._steady_s = steady_s
        self._marks: dict[tuple[str, int], int] = {}
        self._is_slow = False
        self._quick_s = float("inf")
        self._looked_at_all_s = 0.0
        self._leases_from_ms = FROM_THE_START

    def looks_at_all(self, claim: Claim) -> bool:
        is_old = self._steady_s() >= self._looked_at_all_s + LOOK_AT_ALL_EVERY_S
        return not self._is_slow or is_old or claim.limit < SMALLEST_CLAIM

    def starts(self, queues: Iterable[str], priority: int) -> list[int]:
        return [self._marks.get((queue, priority), FROM_THE_START) for queue in queues]

    @property
    def leases_from_ms(self) -> int:
        """Leases that had ended at the last look at everything are not looked for again."""
        return self._leases_from_ms

    def learn(
        self,
        claim: Claim,
        taken: Iterable[tuple[str, int, int]],
        took_s: float,
        *,
        looked_at_all: bool,
    ) -> None:
        """`taken` has queue, priority and due time of what was claimed."""
        if looked_at_all:
            self._is_slow = took_s > max(SLOW_LOOK_S, SLOW_RATIO * self._quick_s)
            if claim.limit >= SMALLEST_CLAIM:
                self._quick_s = min(took_s, self._quick_s * _FORGET)
            self._looked_at_all_s = self._steady_s()
            self._leases_from_ms = claim.now_ms - MARGIN_MS
            self._marks = {}
        if not self._is_slow:
            return
        lowest: dict[tuple[str, int], int] = {}
        for queue, priority, due_at_ms in taken:
            place = queue, priority
            lowest[place] = min(lowest.get(place, due_at_ms), due_at_ms)
        for place, due_at_ms in lowest.items():
            self._marks[place] = due_at_ms - MARGIN_MS
