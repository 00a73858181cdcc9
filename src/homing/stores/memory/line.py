"""Entries that come out in order. Most also come in in order, and those are never sorted."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Mapping
from typing import TypeAlias

Entry: TypeAlias = tuple[int, str]
"""(due time, id): the order of a claim inside one priority."""


class Line:
    """A queue of those that came in order, and a heap of the others."""

    __slots__ = ("_in_order", "_others")

    def __init__(self) -> None:
        self._in_order: deque[Entry] = deque()
        self._others: list[Entry] = []

    @property
    def first(self) -> Entry | None:
        in_order, others = self._in_order, self._others
        if not others:
            return in_order[0] if in_order else None
        return in_order[0] if in_order and in_order[0] < others[0] else others[0]

    def push(self, entry: Entry) -> None:
        in_order = self._in_order
        if not in_order or in_order[-1] < entry:
            in_order.append(entry)
        else:
            heapq.heappush(self._others, entry)

    def take(
        self, counting: dict[str, Entry], now_ms: int, limit: int, until: Entry | None
    ) -> tuple[list[str], int]:
        """The ids of what is due and before `until`, out of `counting` too; how many entries left.

        An entry that is not the one in `counting` was left behind, and is dropped.
        """
        in_order, others = self._in_order, self._others
        taken: list[str] = []
        dropped = 0
        while in_order or others:
            is_heap = not in_order or (others and others[0] < in_order[0])
            entry = others[0] if is_heap else in_order[0]
            if entry[0] > now_ms or (until is not None and entry > until) or len(taken) >= limit:
                break
            if is_heap:
                heapq.heappop(others)
            else:
                in_order.popleft()
            dropped += 1
            delivery_id = entry[1]
            if counting.get(delivery_id) is entry:
                del counting[delivery_id]
                taken.append(delivery_id)
        return taken, dropped

    def drop_gone(self, counting: Mapping[str, Entry]) -> int:
        """Until the first one counts; how many were dropped."""
        dropped = 0
        while (first := self.first) is not None and counting.get(first[1]) is not first:
            if self._others and self._others[0] is first:
                heapq.heappop(self._others)
            else:
                self._in_order.popleft()
            dropped += 1
        return dropped

    def keep(self, counting: Mapping[str, Entry]) -> None:
        """Nothing but what counts."""
        in_order = [entry for entry in self._in_order if counting.get(entry[1]) is entry]
        self._in_order = deque(in_order)
        self._others = [entry for entry in self._others if counting.get(entry[1]) is entry]
        heapq.heapify(self._others)
