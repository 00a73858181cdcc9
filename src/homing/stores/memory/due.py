"""What is due next, without looking at everything: one heap per lane and priority."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator
from typing import TypeAlias

from homing.domain.delivery import CLAIMABLE_STATES, Delivery

Entry: TypeAlias = tuple[int, str]
"""(due time, id): the order of a claim inside one priority."""

_SPARE_ENTRIES = 1024


class DueQueue:
    """Claimable deliveries by lane, priority, due time and id.

    A delivery that moves leaves its old entry behind; an entry counts only while it says what
    `_places` says, and is dropped when it comes to the top.
    """

    def __init__(self) -> None:
        self._places: dict[str, tuple[str, int, int]] = {}
        self._heaps: dict[str, dict[int, list[Entry]]] = {}
        self._entries = 0
        # With more entries than this, it is worth a look how many still count.
        self._entries_allowed = _SPARE_ENTRIES

    def place(self, delivery: Delivery) -> None:
        """Note when this delivery is due, if ever."""
        due_at_ms = delivery.due_at_ms
        if due_at_ms is None or delivery.state not in CLAIMABLE_STATES:
            self._places.pop(delivery.id, None)
            return
        delivery_id, lane, priority = delivery.id, delivery.lane, delivery.priority
        place = (lane, priority, due_at_ms)
        if delivery_id in self._places and self._places[delivery_id] == place:
            return
        self._places[delivery_id] = place
        try:
            heap = self._heaps[lane][priority]
        except KeyError:
            heap = self._heaps.setdefault(lane, {}).setdefault(priority, [])
        heapq.heappush(heap, (due_at_ms, delivery_id))
        self._entries += 1
        if self._entries > self._entries_allowed:
            self._tidy()

    def remove(self, delivery_id: str) -> None:
        self._places.pop(delivery_id, None)

    def take_due(self, lanes: Iterable[str], now_ms: int) -> Iterator[str]:
        """Take out what is due, in the order of a claim. The caller must `place` each again."""
        lanes = tuple(dict.fromkeys(lanes))
        for priority in sorted({p for lane in lanes for p in self._heaps.get(lane, ())}):
            while (found := self._first(lanes, priority)) is not None and found[0][0] <= now_ms:
                (_, delivery_id), heap = found
                heapq.heappop(heap)
                self._entries -= 1
                del self._places[delivery_id]
                yield delivery_id

    def next_due_ms(self, lanes: Iterable[str]) -> int | None:
        lanes = tuple(dict.fromkeys(lanes))
        priorities = {p for lane in lanes for p in self._heaps.get(lane, ())}
        firsts = [self._first(lanes, priority) for priority in priorities]
        return min((first[0][0] for first in firsts if first is not None), default=None)

    def _first(self, lanes: tuple[str, ...], priority: int) -> tuple[Entry, list[Entry]] | None:
        first: tuple[Entry, list[Entry]] | None = None
        for lane in lanes:
            heap = self._heaps.get(lane, {}).get(priority)
            if heap is None:
                continue
            while heap and self._places.get(heap[0][1]) != (lane, priority, heap[0][0]):
                heapq.heappop(heap)
                self._entries -= 1
            if heap and (first is None or heap[0] < first[0]):
                first = heap[0], heap
        return first

    def _tidy(self) -> None:
        """Drop the entries that no longer count, once they are the greater part."""
        self._entries_allowed = 2 * len(self._places) + _SPARE_ENTRIES
        if self._entries <= self._entries_allowed:
            return
        self._heaps, self._entries = {}, len(self._places)
        for delivery_id, (lane, priority, due_at_ms) in self._places.items():
            heap = self._heaps.setdefault(lane, {}).setdefault(priority, [])
            heapq.heappush(heap, (due_at_ms, delivery_id))
