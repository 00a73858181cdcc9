"""The records of a RecordLayout, as other programs read them in the store."""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterable

from msgspec import Struct

from homing.domain.shown import CLAIM_ISO, CLAIM_MS, ShownRecord
from homing.ports import Seen
from homing.stores.layout import iso_utc


class _Entry(Struct):
    head: bytes
    tail: bytes
    names: tuple[str, ...]
    claimed_tail: bytes | None
    claimed_names: tuple[str, ...]
    gone_at_ms: int | None
    owner: str | None


class ShownRecords:
    """Records by their keys, by their index names, and by the delivery that they go with."""

    def __init__(self) -> None:
        self._entries: dict[str, _Entry] = {}
        self._under: dict[str, dict[str, None]] = {}
        # Empty where no store shows anything, so that claims need not ask.
        self.by_delivery: dict[str, dict[str, None]] = {}
        self._going: list[tuple[int, str]] = []

    def put(
        self,
        records: Iterable[ShownRecord],
        owner: str | None = None,
        keys_put: Collection[tuple[str, str]] = (),
    ) -> None:
        for record in records:
            if record.of_key is None or record.of_key in keys_put:
                self._put(record, owner if record.owned else None)

    def claim(self, owner: str, now_ms: int) -> None:
        """Show that its delivery was claimed."""
        for key in self.by_delivery.get(owner, ()):
            entry = self._entries[key]
            if entry.claimed_tail is not None:
                tail = entry.claimed_tail.replace(CLAIM_MS, b"%d" % now_ms)
                entry.tail = tail.replace(CLAIM_ISO, iso_utc(now_ms).encode())
                self._rename(key, entry, entry.claimed_names)

    def remove(self, owner: str) -> None:
        """The delivery's record is removed; records with a term of their own stay until it ends."""
        for key in self.by_delivery.pop(owner, ()):
            if self._entries[key].gone_at_ms is None:
                self._drop(key)
            else:
                self._entries[key].owner = None

    def expire(self, now_ms: int) -> None:
        while self._going and self._going[0][0] <= now_ms:
            gone_at_ms, key = heapq.heappop(self._going)
            entry = self._entries.get(key)
            if entry is None or entry.gone_at_ms != gone_at_ms:
                continue
            if entry.owner is not None:
                self.by_delivery.get(entry.owner, {}).pop(key, None)
            self._drop(key)

    def get(self, key: str) -> Seen | None:
        entry = self._entries.get(key)
        if entry is None or not entry.tail:
            return None
        return Seen(entry.head + entry.tail, entry.names, entry.gone_at_ms)

    def under(self, name: str) -> list[str]:
        return sorted(self._under.get(name, ()))

    def _put(self, record: ShownRecord, owner: str | None) -> None:
        before = self._entries.get(record.key)
        head = record.head
        if head is None:
            head = b"" if before is None else before.head
        entry = _Entry(
            head,
            record.tail,
            () if before is None else before.names,
            record.claimed_tail,
            record.claimed_names,
            record.gone_at_ms,
            owner,
        )
        self._entries[record.key] = entry
        self._rename(record.key, entry, record.names)
        if owner is not None:
            self.by_delivery.setdefault(owner, {})[record.key] = None
        if record.gone_at_ms is not None:
            heapq.heappush(self._going, (record.gone_at_ms, record.key))

    def _rename(self, key: str, entry: _Entry, names: tuple[str, ...]) -> None:
        for name in entry.names:
            self._under[name].pop(key, None)
        entry.names = names if entry.tail else ()
        for name in entry.names:
            self._under.setdefault(name, {})[key] = None

    def _drop(self, key: str) -> None:
        entry = self._entries.pop(key)
        entry.tail = b""
        self._rename(key, entry, ())
