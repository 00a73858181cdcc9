"""Lines with a checksum. The queue and the journal beside it are made of them.

A line is a JSON object. Its last member, `_homing`, is Homing's own and ends with the checksum of
all bytes before it, so a line is checked by itself, without being parsed.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Generic, TypeVar
from zlib import crc32

from msgspec import DecodeError, Raw, Struct, field, json

from homing.domain.delivery import DEFAULT_PRIORITY, Delivery, Fact, Key
from homing.stores.memory.disk import LedgerRow

T = TypeVar("T")

_MARK = "_homing"
_SEAL = b',"sum":"%08x"}}'
_SEALED_LINE = _SEAL + b"\n"
SEALED_SUM = re.compile(rb',"sum":"([0-9a-f]{8})"}}')
SEAL_BYTES = len(_SEAL % 0)
# The end of a line: the part that is the same in all of them, and its position.
_FIXED = [(nth - SEAL_BYTES - 1, byte) for nth, byte in enumerate(_SEALED_LINE % 0) if byte != 48]
_FIXED_LEAST = 8
# As long as no checksum or small damage makes them.
_ZEROS = bytes(16)


class QueueRecord(Struct, omit_defaults=True, gc=False):
    """What Homing keeps of a delivery in its line, beside the fields that its RecordLayout shows.

    All lines of a commit have its number, and `more` of them follow. The first `head` bytes of
    the line follow from the request and are the same in its later lines. Payload and results are
    in the line that has changed them. `keyed`: it takes the delivery's own key, for ever.
    `versions`: so many changes of the delivery are in this line.
    """

    commit: int
    head: int
    delivery: Delivery
    more: int = 0
    keyed: bool = False
    versions: int = 1
    payload: bytes | None = None
    results: dict[str, bytes] | None = None


class IndexedDelivery(Struct, gc=False):
    """Of a delivery, what the indexes look at: it takes half the time to decode."""

    id: str
    queue: str
    source: str = ""
    key: str | None = None
    priority: int = DEFAULT_PRIORITY
    state: str = "pending"
    due_at_ms: int | None = None
    parent_id: str | None = None
    holder: str | None = None
    notices_due: tuple[str, ...] = ()


class IndexedRecord(Struct, gc=False):
    """The same record, read for the indexes. Payload and results are empty if not in the line."""

    commit: int
    head: int
    delivery: IndexedDelivery
    more: int = 0
    keyed: bool = False
    versions: int = 1
    payload: Raw = Raw(b"")
    results: Raw = Raw(b"")


class JournalRecord(Struct, omit_defaults=True):
    """What one commit keeps beside the queue. `lines`: how many lines it has there.

    `queue_bytes`: so much of the queue was on the disk before; 0 where that is not known.
    `gone` and `emptied` are ids of deliveries that were removed, or whose content was.
    """

    commit: int = 0
    lines: int = 0
    queue_bytes: int = 0
    keys: list[Key] = []
    keys_gone: list[tuple[str, str]] = []
    attempts: list[LedgerRow] = []
    attempts_gone: list[tuple[str, int]] = []
    facts: list[Fact] = []
    facts_gone: list[tuple[str, str]] = []
    leases: list[tuple[str, int]] = []
    gone: list[str] = []
    emptied: list[str] = []

    @property
    def entries(self) -> int:
        kept = len(self.keys) + len(self.attempts) + len(self.facts) + len(self.leases)
        removed = len(self.keys_gone) + len(self.attempts_gone) + len(self.facts_gone)
        return kept + removed + len(self.gone) + len(self.emptied)


class KeptDelivery(Struct, gc=False):
    """The record of the queue, read for its delivery."""

    delivery: Delivery


class KeptContent(Struct):
    """The record of the queue, read for its content."""

    payload: bytes | None = None
    results: dict[str, bytes] | None = None


class _Line(Struct, Generic[T], gc=False):
    homing: T = field(name="_homing")


def _reader(line_type: type[_Line[T]]) -> Callable[[bytes], T]:
    decode = json.Decoder(line_type).decode
    return lambda line: decode(line).homing


indexed_record = _reader(_Line[IndexedRecord])
journal_record = _reader(_Line[JournalRecord])
kept_content = _reader(_Line[KeptContent])
kept_delivery = _reader(_Line[KeptDelivery])
_decode_object = json.Decoder(dict[str, Raw]).decode


def sealed(shown: bytes, record: bytes) -> bytes:
    """A line: `shown` is a JSON object without its last brace, `record` a whole one."""
    line = bytearray(opened(shown) + record + b"}")
    seal_last(line, 0)
    return bytes(line)


def opened(shown: bytes) -> bytes:
    """The beginning of a line, to be followed by Homing's own record and a brace."""
    return shown + (b'"_homing":' if shown == b"{" else b',"_homing":')


def seal_last(lines: bytearray, start: int) -> None:
    """Put the checksum into the last line, which begins at `start`, and a line feed after it."""
    end = len(lines) - len(b"}}")
    lines[end:] = _SEALED_LINE % crc32(memoryview(lines)[start:end])


def seal(checksum: int) -> bytes:
    """The end of a line whose other bytes have this checksum."""
    return _SEAL % checksum


def sum_in(end: bytes) -> int | None:
    """The checksum that the end of a line states."""
    found = SEALED_SUM.fullmatch(end)
    return None if found is None else int(found[1], 16)


def is_whole(line: bytes) -> bool:
    """Whether Homing has written exactly this line (given without its line feed)."""
    return line[-SEAL_BYTES:] == _SEAL % crc32(memoryview(line)[:-SEAL_BYTES])


def is_foreign(line: bytes) -> bool:
    """Whether another program wrote it: a JSON object without any part of Homing's own.

    A single flipped bit cannot remove both marks of a line of ours.
    """
    if line[-SEAL_BYTES:].startswith(b',"sum":"'):
        return False
    try:
        return _MARK not in _decode_object(line)
    except (DecodeError, UnicodeDecodeError):
        return False


def blank(size: int) -> bytes:
    """What replaces this many damaged bytes; it also ends the line before them."""
    return b"\n" + b" " * (size - 2) + b"\n" if size > 1 else b"\n"


def looks_finished(line: bytes) -> bool:
    """Whether a damaged line, given with its last byte, was written to its end.

    A write that was cut off ends anywhere, or has blocks of zeros.
    """
    if len(line) <= SEAL_BYTES or _ZEROS in line:
        return False
    if line[-SEAL_BYTES - 1 :].startswith(b',"sum":"') or line.endswith(b'"}}\n'):
        return True
    return sum(line[place] == byte for place, byte in _FIXED) >= _FIXED_LEAST
