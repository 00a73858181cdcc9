"""What is due next, without looking at everything: a heap per lane and priority, and the leases."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence
from typing import TypeAlias

from homing.domain.delivery import CLAIMABLE_STATES, Delivery

Entry: TypeAlias = tuple[int, str]
"""(due time, id): the order of a claim inside one priority."""

_SPARE_ENTRIES = 1024


class DueQueue:
    """Claimable deliveries by lane, priority, due time and id.

    Most leases never end by themselves: they lie apart, by their ends, and come into the heaps
    only when they have ended. A delivery that moves leaves its old entry in the heap; an entry
    counts only while it is the one in `_entries`, and is dropped when it comes to the top.
    """

    def __init__(self) -> None:
        self._entries: dict[str, Entry] = {}
        self._heaps: dict[str, dict[int, list[Entry]]] = {}
        # By lane and end: the ids with their priorities.
        self._leases: dict[str, dict[int, dict[str, int]]] = {}
        # Entries in the heaps, with those that no longer count.
        self.size = 0
        # With more in the heaps than this, it is worth a look how much still counts.
        self._size_allowed = _SPARE_ENTRIES

    def add(self, delivery: Delivery) -> None:
        """Note when this delivery, which is not in here, is due, if ever."""
        due_at_ms = delivery.due_at_ms
        if due_at_ms is None or delivery.state not in CLAIMABLE_STATES:
            return
        if delivery.state == "in_flight":
            self.lease((delivery,), due_at_ms)
        else:
            self._push(delivery.lane, delivery.priority, (due_at_ms, delivery.id))

    def lease(self, deliveries: Sequence[Delivery], until_ms: int) -> None:
        """All of them, which are not in here, are due at the end of the lease."""
        leased: dict[str, int] = {}
        lane: str | None = None
        for delivery in deliveries:
            if delivery.lane != lane:
                lane = delivery.lane
                leased = self._leases.setdefault(lane, {}).setdefault(until_ms, {})
            leased[delivery.id] = delivery.priority

    def remove(self, delivery: Delivery) -> None:
        """Forget this delivery, given as it was added."""
        due_at_ms = delivery.due_at_ms
        if due_at_ms is None or delivery.state not in CLAIMABLE_STATES:
            return
        if delivery.id in self._entries:
            del self._entries[delivery.id]
            return
        leases = self._leases[delivery.lane]
        leased = leases[due_at_ms]
        del leased[delivery.id]
        if not leased:
            del leases[due_at_ms]

    def take(self, lanes: Iterable[str], now_ms: int, limit: int) -> list[str]:
        """Take out what is due, in the order of a claim; the caller must add each again."""
        lanes = tuple(dict.fromkeys(lanes))
        self._end_leases(lanes, now_ms)
        taken: list[str] = []
        for priority in sorted({p for lane in lanes for p in self._heaps.get(lane, ())}):
            taken += self._take(self._filled(lanes, priority), now_ms, limit - len(taken))
            if len(taken) >= limit:
                break
        return taken

    def next_due_ms(self, lanes: Iterable[str]) -> int | None:
        ends: list[int] = []
        for lane in dict.fromkeys(lanes):
            ends += self._leases.get(lane, ())
            for heap in self._heaps.get(lane, {}).values():
                while heap and self._entries.get(heap[0][1]) is not heap[0]:
                    heapq.heappop(heap)
                    self.size -= 1
                if heap:
                    ends.append(heap[0][0])
        return min(ends, default=None)

    def _filled(self, lanes: Iterable[str], priority: int) -> list[list[Entry]]:
        heaps = [self._heaps.get(lane, {}).get(priority) for lane in lanes]
        return [heap for heap in heaps if heap]

    def _take(self, heaps: list[list[Entry]], now_ms: int, limit: int) -> list[str]:
        entries, pop = self._entries, heapq.heappop
        taken: list[str] = []
        left = limit
        while heaps and left > 0:
            # Lists are compared by what is first in them.
            heap = heaps[0] if heaps[0] is heaps[-1] else min(heaps)
            entry = heap[0]
            if entry[0] > now_ms:
                break
            pop(heap)
            self.size -= 1
            if not heap:
                heaps = [heap for heap in heaps if heap]
            delivery_id = entry[1]
            if delivery_id in entries and entries[delivery_id] is entry:
                del entries[delivery_id]
                taken.append(delivery_id)
                left -= 1
        return taken

    def _end_leases(self, lanes: Iterable[str], now_ms: int) -> None:
        for lane in lanes:
            leases = self._leases.get(lane, {})
            for end_ms in [end_ms for end_ms in leases if end_ms <= now_ms]:
                for delivery_id, priority in leases.pop(end_ms).items():
                    self._push(lane, priority, (end_ms, delivery_id))

    def _push(self, lane: str, priority: int, entry: Entry) -> None:
        self._entries[entry[1]] = entry
        try:
            heap = self._heaps[lane][priority]
        except KeyError:
            heap = self._heaps.setdefault(lane, {}).setdefault(priority, [])
        heapq.heappush(heap, entry)
        self.size += 1
        if self.size > self._size_allowed:
            self._tidy()

    def _tidy(self) -> None:
        """Drop the entries that no longer count, once they are the greater part."""
        self._size_allowed = 2 * len(self._entries) + _SPARE_ENTRIES
        if self.size <= self._size_allowed:
            return
        self.size = len(self._entries)
        for heaps in self._heaps.values():
            for heap in heaps.values():
                heap[:] = [entry for entry in heap if self._entries.get(entry[1]) is entry]
                heapq.heapify(heap)
