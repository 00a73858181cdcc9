"""The positions of the parts of a delivery in the queue file: its bytes stay on the disk."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, MutableMapping
from struct import Struct
from typing import NamedTuple, TypeVar

from homing.domain.delivery import Content, Delivery
from homing.stores.jsonl.lines import kept_content, kept_delivery

T = TypeVar("T")


class Place(NamedTuple):
    """Offsets and lengths of lines; `head` is the length of the first part of its last line.

    Where a delivery has no payload or no results, the length of that line is 0.
    """

    line: int
    line_bytes: int
    head: int
    payload: int
    payload_line_bytes: int
    payload_size: int
    results: int
    results_line_bytes: int


# A tuple of eight numbers takes six times as much memory.
_PLACE = Struct("<QIIQIIQI")


def packed_place(
    offset: int,
    size: int,
    head: int,
    payload_size: int | None,
    has_results: bool | None,  # noqa: FBT001 - called for each line
    before: bytes | None,
) -> bytes:
    """Of a delivery whose newest line is here; None: the line does not change that part."""
    if before is None:
        if payload_size is not None and not has_results:
            return _PLACE.pack(offset, size, head, offset, size, payload_size, 0, 0)
        payload, results = (0, 0, 0), (0, 0)
    else:
        place = _PLACE.unpack(before)
        payload, results = place[3:6], place[6:8]
    if payload_size is not None:
        payload = offset, size, payload_size
    if has_results is not None:
        results = (offset, size) if has_results else (0, 0)
    return _PLACE.pack(offset, size, head, *payload, *results)


def emptied_place(before: bytes) -> bytes:
    """Its payload and its results are gone; its line still shows what follows from them."""
    return _PLACE.pack(*_PLACE.unpack(before)[:3], 0, 0, 0, 0, 0)


class _InFile(Mapping[str, T]):
    """What can be read of each delivery that has a place."""

    packed: dict[str, bytes]

    def __contains__(self, delivery_id: object) -> bool:
        return delivery_id in self.packed

    def __iter__(self) -> Iterator[str]:
        return iter(self.packed)

    def __len__(self) -> int:
        return len(self.packed)


class Contents(_InFile[Content]):
    """Contents by the id of their delivery, read from the file when they are asked for."""

    def __init__(self, read_line: Callable[[int, int], bytes]) -> None:
        self._read_line = read_line
        self.packed = {}

    def line_of(self, delivery_id: str) -> int:
        """Where its last line begins."""
        return self._place(delivery_id).line

    def delivery(self, delivery_id: str) -> Delivery:
        """As its last line says."""
        place = self._place(delivery_id)
        return kept_delivery(self._read_line(place.line, place.line_bytes)).delivery

    def head(self, delivery_id: str) -> bytes:
        """Empty if its line has none, or if it has no line yet."""
        if delivery_id not in self.packed:
            return b""
        place = self._place(delivery_id)
        return self._read_line(place.line, place.line_bytes)[: place.head] if place.head else b""

    def payload_size(self, delivery_id: str) -> int:
        return self._place(delivery_id).payload_size

    def is_empty(self, delivery_id: str) -> bool:
        place = self._place(delivery_id)
        return not place.payload_size and not place.results_line_bytes

    def __getitem__(self, delivery_id: str) -> Content:
        place = self._place(delivery_id)
        payload, results = b"", dict[str, bytes]()
        if place.payload_line_bytes:
            line = kept_content(self._read_line(place.payload, place.payload_line_bytes))
            payload = line.payload or b""
            if place.results == place.payload and place.results_line_bytes:
                return Content(payload, line.results or {})
        if place.results_line_bytes:
            line = kept_content(self._read_line(place.results, place.results_line_bytes))
            results = line.results or {}
        return Content(payload, results)

    def _place(self, delivery_id: str) -> Place:
        return Place._make(_PLACE.unpack(self.packed[delivery_id]))


class FileDeliveries(_InFile[Delivery], MutableMapping[str, Delivery]):
    """Records by id, read from their last lines. What is in flight is in memory: it changes again
    soon, and a longer lease is in no line."""

    def __init__(self, places: Contents) -> None:
        self._places = places
        self.packed = places.packed
        self.in_flight: dict[str, Delivery] = {}

    def __getitem__(self, delivery_id: str) -> Delivery:
        held = self.in_flight.get(delivery_id)
        return self._places.delivery(delivery_id) if held is None else held

    def __setitem__(self, delivery_id: str, delivery: Delivery) -> None:
        """Its line has been written."""
        if delivery.state == "in_flight":
            self.in_flight[delivery_id] = delivery
        else:
            self.in_flight.pop(delivery_id, None)

    def __delitem__(self, delivery_id: str) -> None:
        self.in_flight.pop(delivery_id, None)
        del self.packed[delivery_id]
