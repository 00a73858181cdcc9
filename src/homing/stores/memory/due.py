"""What is due next, without looking at everything: a line per queue and priority, and leases."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from homing.domain.delivery import CLAIMABLE_STATES, Delivery
from homing.stores.memory.line import Entry, Line

_SPARE_ENTRIES = 1024


class DueQueue:
    """Claimable deliveries by queue, priority, due time and id.

    Most leases never expire: they are kept separately, by their ends, and are put into the lines
    only when they have ended. A delivery that moves leaves its old entry in its line; an entry
    counts only while it is the one in `_entries`, and is dropped when it comes to the front.
    """

    def __init__(self) -> None:
        self._entries: dict[str, Entry] = {}
        self._lines: dict[str, dict[int, Line]] = {}
        # By queue and end: the ids with their priorities.
        self._leases: dict[str, dict[int, dict[str, int]]] = {}
        # Entries in the lines, with those that no longer count.
        self.size = 0
        # With more in the lines than this, it is worth a look how much still counts.
        self._size_allowed = _SPARE_ENTRIES

    def add(self, delivery: Delivery) -> None:
        """Note when this delivery, which is not in here, is due, if ever."""
        due_at_ms = delivery.due_at_ms
        if due_at_ms is None or delivery.state not in CLAIMABLE_STATES:
            return
        if delivery.state == "in_flight":
            self.lease((delivery,), due_at_ms)
        else:
            self._push(delivery.queue, delivery.priority, (due_at_ms, delivery.id))

    def lease(self, deliveries: Sequence[Delivery], until_ms: int) -> None:
        """All of them, which are not in here, are due at the end of the lease."""
        leased: dict[str, int] = {}
        queue: str | None = None
        for delivery in deliveries:
            if delivery.queue != queue:
                queue = delivery.queue
                leased = self._leases.setdefault(queue, {}).setdefault(until_ms, {})
            leased[delivery.id] = delivery.priority

    def remove(self, delivery: Delivery) -> None:
        """Forget this delivery, given as it was added."""
        due_at_ms, delivery_id = delivery.due_at_ms, delivery.id
        if due_at_ms is None or delivery.state not in CLAIMABLE_STATES:
            return
        if delivery_id in self._entries:
            del self._entries[delivery_id]
            return
        leases = self._leases[delivery.queue]
        leased = leases[due_at_ms]
        del leased[delivery_id]
        if not leased:
            del leases[due_at_ms]

    def take(self, queues: Iterable[str], now_ms: int, limit: int) -> list[str]:
        """Take out what is due, in the order of a claim; the caller must add each again."""
        queues = tuple(dict.fromkeys(queues))
        self._end_leases(queues, now_ms)
        taken: list[str] = []
        for priority in sorted({p for queue in queues for p in self._lines.get(queue, ())}):
            lines = [self._lines.get(queue, {}).get(priority) for queue in queues]
            taken += self._take([line for line in lines if line], now_ms, limit - len(taken))
            if len(taken) >= limit:
                break
        return taken

    def next_due_ms(self, queues: Iterable[str]) -> int | None:
        ends: list[int] = []
        for queue in dict.fromkeys(queues):
            ends += self._leases.get(queue, ())
            for line in self._lines.get(queue, {}).values():
                self.size -= line.drop_gone(self._entries)
                if (first := line.first) is not None:
                    ends.append(first[0])
        return min(ends, default=None)

    def _take(self, lines: list[Line], now_ms: int, limit: int) -> list[str]:
        taken: list[str] = []
        while len(taken) < limit:
            firsts = sorted([(line.first, at) for at, line in enumerate(lines) if line.first])
            if not firsts or firsts[0][0][0] > now_ms:
                break
            # From one line, up to where another one is next.
            until = firsts[1][0] if len(firsts) > 1 else None
            line = lines[firsts[0][1]]
            ids, dropped = line.take(self._entries, now_ms, limit - len(taken), until)
            self.size -= dropped
            taken += ids
        return taken

    def _end_leases(self, queues: Iterable[str], now_ms: int) -> None:
        for queue in queues:
            leases = self._leases.get(queue, {})
            for end_ms in [end_ms for end_ms in leases if end_ms <= now_ms]:
                for delivery_id, priority in leases.pop(end_ms).items():
                    self._push(queue, priority, (end_ms, delivery_id))

    def _push(self, queue: str, priority: int, entry: Entry) -> None:
        self._entries[entry[1]] = entry
        try:
            line = self._lines[queue][priority]
        except KeyError:
            line = self._lines.setdefault(queue, {}).setdefault(priority, Line())
        line.push(entry)
        self.size += 1
        if self.size > self._size_allowed:
            self._tidy()

    def _tidy(self) -> None:
        """Drop the entries that no longer count, once they are the greater part."""
        self._size_allowed = 2 * len(self._entries) + _SPARE_ENTRIES
        if self.size <= self._size_allowed:
            return
        self.size = len(self._entries)
        for lines in self._lines.values():
            for line in lines.values():
                line.keep(self._entries)
