"""Where the parts of a delivery lie in the queue file: its bytes stay on the disk."""

from __future__ import annotations

from collections.abc import Callable, Iterator, MutableMapping
from struct import Struct
from typing import Any, NamedTuple

from homing.domain.delivery import Content, Delivery, Key
from homing.stores.codec import decode_delivery
from homing.stores.jsonl.lines import QueueRecord, kept_content, queue_record


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

    def __init__(self, read_line: Callable[[int, int], bytes]) -> None:
        self._read_line = read_line
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

    def has_place(self, delivery_id: object) -> bool:
        return delivery_id in self._places

    def placed(self) -> Iterator[str]:
        return iter(self._places)

    def line(self, delivery_id: str) -> QueueRecord:
        """What its last line keeps of it."""
        place = self._known(delivery_id)
        return queue_record(self._read_line(place.line, place.line_bytes))

    def empty(self, delivery_id: str) -> None:
        """Its payload and its results are gone; its line still shows what follows from them."""
        place = self.place(delivery_id)
        if place is not None:
            self.put_place(delivery_id, Place(*place[:3]))

    def head(self, delivery_id: str) -> bytes:
        place = self._known(delivery_id)
        return self._read_line(place.line, place.line_bytes)[: place.head]

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
        place = self.place(delivery_id)
        if place is None:
            raise KeyError(delivery_id)
        return place

    def __setitem__(self, delivery_id: str, content: Content) -> None:
        self.fresh[delivery_id] = content

    def __delitem__(self, delivery_id: str) -> None:
        self.fresh.pop(delivery_id, None)
        self.put_place(delivery_id, None)

    def __contains__(self, delivery_id: object) -> bool:
        return delivery_id in self._places or delivery_id in self.fresh

    def __iter__(self) -> Iterator[str]:
        return iter({**self._places, **self.fresh})

    def __len__(self) -> int:
        return len({**self._places, **self.fresh})


class FileDeliveries(MutableMapping[str, Delivery]):
    """Records by id, read from their last lines. What is in flight, and what is not in the file
    yet, is in memory: it changes again soon, and a longer lease is in no line."""

    def __init__(self, places: Contents) -> None:
        self._places = places
        self._near: dict[str, Delivery] = {}

    def written(self, delivery_id: str) -> None:
        """Its last line says what is known of it."""
        known = self._near.get(delivery_id)
        if known is not None and known.state != "in_flight":
            del self._near[delivery_id]

    def in_flight(self) -> list[Delivery]:
        return [one for one in self._near.values() if one.state == "in_flight"]

    def __getitem__(self, delivery_id: str) -> Delivery:
        near = self._near.get(delivery_id)
        if near is not None:
            return near
        return decode_delivery(self._places.line(delivery_id).delivery)

    def get(self, delivery_id: str, default: Any = None) -> Any:
        if delivery_id in self:
            return self[delivery_id]
        return default

    def __setitem__(self, delivery_id: str, delivery: Delivery) -> None:
        self._near[delivery_id] = delivery

    def __delitem__(self, delivery_id: str) -> None:
        self._near.pop(delivery_id, None)
        self._places.put_place(delivery_id, None)

    def __contains__(self, delivery_id: object) -> bool:
        return delivery_id in self._near or self._places.has_place(delivery_id)

    def __iter__(self) -> Iterator[str]:
        yield from self._places.placed()
        yield from [one for one in self._near if not self._places.has_place(one)]

    def __len__(self) -> int:
        return sum(1 for _ in self)


class PackedKeys(MutableMapping[tuple[str, str], Key]):
    """Keys by their names, each as two texts: five objects take twice the memory.

    The texts may hold any character, so lengths stand before them.
    """

    def __init__(self) -> None:
        self._packed: dict[str, str] = {}

    def __getitem__(self, name: tuple[str, str]) -> Key:
        return _unpacked(name, self._packed[_name(*name)])

    def get(self, name: tuple[str, str], default: Any = None) -> Any:
        packed = self._packed.get(_name(*name))
        return default if packed is None else _unpacked(name, packed)

    def __setitem__(self, name: tuple[str, str], key: Key) -> None:
        lengths = f"{len(key.delivery_id)},{len(key.fingerprint)}"
        expires = "" if key.expires_at_ms is None else key.expires_at_ms
        self._packed[_name(*name)] = f"{lengths} {key.delivery_id}{key.fingerprint}{expires}"

    def __delitem__(self, name: tuple[str, str]) -> None:
        del self._packed[_name(*name)]

    def __contains__(self, name: object) -> bool:
        return isinstance(name, tuple) and _name(*name) in self._packed

    def __iter__(self) -> Iterator[tuple[str, str]]:
        for packed in self._packed:
            length, _, joined = packed.partition(" ")
            yield joined[: int(length)], joined[int(length) :]

    def __len__(self) -> int:
        return len(self._packed)


def _name(source: str, key: str) -> str:
    return f"{len(source)} {source}{key}"


def _unpacked(name: tuple[str, str], packed: str) -> Key:
    lengths, _, joined = packed.partition(" ")
    id_length, _, fingerprint_length = lengths.partition(",")
    first = int(id_length)
    second = first + int(fingerprint_length)
    expires = joined[second:]
    return Key(*name, joined[:first], joined[first:second], int(expires) if expires else None)
