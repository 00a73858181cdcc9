"""Where the parts of a delivery lie in the queue file: its bytes stay on the disk."""

from __future__ import annotations

from collections.abc import Callable, Iterator, MutableMapping
from struct import Struct
from typing import NamedTuple

from homing.domain.delivery import Content, Delivery
from homing.stores.codec import decode_delivery
from homing.stores.jsonl.lines import kept_content


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


class Contents(MutableMapping[str, Content]):
    """Contents by the id of their delivery, read from the file when they are asked for.

    Those in `fresh` are not in the file yet.
    """

    def __init__(self, read: Callable[[int, int], bytes]) -> None:
        self._read = read
        self._places: dict[str, bytes] = {}
        self.fresh: dict[str, Content] = {}
        self._last: tuple[str, Content] | None = None

    def place(self, delivery_id: str) -> Place | None:
        packed = self._places.get(delivery_id)
        return None if packed is None else Place._make(_PLACE.unpack(packed))

    def put_place(self, delivery_id: str, place: Place | None) -> None:
        self._last = None
        if place is None:
            self._places.pop(delivery_id, None)
        else:
            self._places[delivery_id] = _PLACE.pack(*place)

    def empty(self, delivery_id: str) -> None:
        """Its payload and its results are gone; its line still shows what follows from them."""
        place = self.place(delivery_id)
        if place is not None:
            self.put_place(delivery_id, Place(*place[:3]))

    def head(self, delivery_id: str) -> bytes:
        place = self._known(delivery_id)
        return self._read(place.line, place.head)

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
            line = kept_content(self._read(place.payload, place.payload_line_bytes))
            payload = line.payload or b""
            if place.results == place.payload and place.results_line_bytes:
                return Content(payload, line.results or {})
        if place.results_line_bytes:
            results = (
                kept_content(self._read(place.results, place.results_line_bytes)).results or {}
            )
        return Content(payload, results)

    def _known(self, delivery_id: str) -> Place:
        place = self.place(delivery_id)
        if place is None:
            raise KeyError(delivery_id)
        return place

    def __setitem__(self, delivery_id: str, content: Content) -> None:
        self.fresh[delivery_id] = content

    def __delitem__(self, delivery_id: str) -> None:
        self.fresh.pop(delivery_id, None)
        self.put_place(delivery_id, None)

    def __iter__(self) -> Iterator[str]:
        return iter({**self._places, **self.fresh})

    def __len__(self) -> int:
        return len({**self._places, **self.fresh})


class PackedDeliveries(MutableMapping[str, Delivery]):
    """Records by id. Most are kept as JSON, which takes a third of the memory."""

    def __init__(self) -> None:
        self._records: dict[str, Delivery | bytes] = {}

    def pack(self, delivery_id: str, record: bytes) -> None:
        """Keep this JSON of what is there. What is in flight changes again soon."""
        known = self._records.get(delivery_id)
        if isinstance(known, Delivery) and known.state != "in_flight":
            self._records[delivery_id] = record

    def __getitem__(self, delivery_id: str) -> Delivery:
        found = self._records[delivery_id]
        return decode_delivery(found) if isinstance(found, bytes) else found

    def __setitem__(self, delivery_id: str, delivery: Delivery) -> None:
        self._records[delivery_id] = delivery

    def __delitem__(self, delivery_id: str) -> None:
        del self._records[delivery_id]

    def __contains__(self, delivery_id: object) -> bool:
        return delivery_id in self._records

    def __iter__(self) -> Iterator[str]:
        return iter(self._records)

    def __len__(self) -> int:
        return len(self._records)
