"""The positions of the parts of a delivery in the queue file: its bytes stay on the disk."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, MutableMapping
from struct import Struct
from typing import Any, NamedTuple

from homing.domain.delivery import Content, Delivery
from homing.stores.jsonl.lines import kept_content, kept_delivery


class Place(NamedTuple):
    """Offsets and lengths of lines; `head` is the length of the first part of its last line.

    Where a delivery has no payload or no results, the length of that line is 0.
    """

    line: int
    line_bytes: int
    head: int
    payload: int = 0
    payload_line_bytes: int = 0
    payload_size: int = 0
    results: int = 0
    results_line_bytes: int = 0


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


class Contents(MutableMapping[str, Content]):
    """Contents by the id of their delivery, read from the file when they are asked for.

    Those in `fresh` are not in the file yet.
    """

    def __init__(self, read_line: Callable[[int, int], bytes]) -> None:
        self._read_line = read_line
        self.packed: dict[str, bytes] = {}
        self.fresh: dict[str, Content] = {}
        self._last: tuple[str, Content] | None = None

    def put_place(self, delivery_id: str, packed: bytes | None) -> None:
        self._last = None
        if packed is None:
            self.packed.pop(delivery_id, None)
        else:
            self.packed[delivery_id] = packed

    def written(self, packed: dict[str, bytes]) -> None:
        """Everything fresh is in the file now, at these positions."""
        self._last = None
        self.packed.update(packed)
        self.fresh.clear()

    def line_of(self, delivery_id: str) -> int:
        """Where its last line begins."""
        return self._known(delivery_id).line

    def delivery(self, delivery_id: str) -> Delivery:
        """As its last line says."""
        place = self._known(delivery_id)
        return kept_delivery(self._read_line(place.line, place.line_bytes))

    def head(self, delivery_id: str) -> bytes:
        """Empty if its line has none, or if it has no line yet."""
        if delivery_id not in self.packed:
            return b""
        place = self._known(delivery_id)
        return self._read_line(place.line, place.line_bytes)[: place.head] if place.head else b""

    def payload_size(self, delivery_id: str) -> int:
        if delivery_id in self.fresh:
            return len(self.fresh[delivery_id].payload)
        return self._known(delivery_id).payload_size

    def is_empty(self, delivery_id: str) -> bool:
        if delivery_id in self.fresh:
            return self.fresh[delivery_id] == Content()
        place = self._known(delivery_id)
        return not place.payload_size and not place.results_line_bytes

    def __getitem__(self, delivery_id: str) -> Content:
        if delivery_id in self.fresh:
            return self.fresh[delivery_id]
        if self._last is not None and self._last[0] == delivery_id:
            return self._last[1]
        content = self._content_at(self._known(delivery_id))
        # A change of the results asks for the content twice.
        self._last = delivery_id, content
        return content

    def _content_at(self, place: Place) -> Content:
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

    def _known(self, delivery_id: str) -> Place:
        return Place._make(_PLACE.unpack(self.packed[delivery_id]))

    def __setitem__(self, delivery_id: str, content: Content) -> None:
        self.fresh[delivery_id] = content

    def __delitem__(self, delivery_id: str) -> None:
        self.fresh.pop(delivery_id, None)
        self.put_place(delivery_id, None)

    def __contains__(self, delivery_id: object) -> bool:
        return delivery_id in self.packed or delivery_id in self.fresh

    def __iter__(self) -> Iterator[str]:
        return iter({**self.packed, **self.fresh})

    def __len__(self) -> int:
        return len({**self.packed, **self.fresh})


class FileDeliveries(MutableMapping[str, Delivery]):
    """Records by id, read from their last lines. What is in flight, and what is not in the file
    yet, is in memory: it changes again soon, and a longer lease is in no line."""

    def __init__(self, places: Contents) -> None:
        self._places = places
        self._packed = places.packed
        self.near: dict[str, Delivery] = {}

    def written(self, delivery_ids: Iterable[str]) -> None:
        """Their last lines say what is known of them."""
        near = self.near
        for delivery_id in delivery_ids:
            known = near.get(delivery_id)
            if known is not None and known.state != "in_flight":
                del near[delivery_id]

    def in_flight(self) -> list[Delivery]:
        return [one for one in self.near.values() if one.state == "in_flight"]

    def __getitem__(self, delivery_id: str) -> Delivery:
        near = self.near.get(delivery_id)
        return self._places.delivery(delivery_id) if near is None else near

    def get(self, delivery_id: str, default: Any = None) -> Any:
        near = self.near.get(delivery_id)
        if near is not None:
            return near
        return self._places.delivery(delivery_id) if delivery_id in self._packed else default

    def __setitem__(self, delivery_id: str, delivery: Delivery) -> None:
        self.near[delivery_id] = delivery

    def __delitem__(self, delivery_id: str) -> None:
        self.near.pop(delivery_id, None)
        self._places.put_place(delivery_id, None)

    def __contains__(self, delivery_id: object) -> bool:
        return delivery_id in self._packed or delivery_id in self.near

    def __iter__(self) -> Iterator[str]:
        yield from self._packed
        yield from [one for one in self.near if one not in self._packed]

    def __len__(self) -> int:
        return sum(1 for _ in self)
