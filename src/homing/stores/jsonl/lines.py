"""Lines with a checksum. The queue and the journal beside it are made of them.

A line is a JSON object. Its last member, `_homing`, is Homing's own and ends with the checksum of
all bytes before it, so a line is checked by itself, without being parsed.
"""

from __future__ import annotations

import re
from zlib import crc32

from msgspec import DecodeError, Raw, Struct, field, json

from homing.domain.delivery import Fact, Key
from homing.stores.memory.disk import LedgerRow

_MARK = "_homing"
_SEAL = b',"sum":"%08x"}}'
_SEALED_SUM = re.compile(rb',"sum":"([0-9a-f]{8})"}}')
SEAL_BYTES = len(_SEAL % 0)


class QueueRecord(Struct, omit_defaults=True, gc=False):
    """What Homing keeps of a delivery in its line, beside the fields that its Shape shows.

    All lines of a commit have its number, and `more` of them follow. The first `head` bytes of
    the line follow from the request and are the same in its later lines. Payload and results are
    in the line that has changed them.
    """

    commit: int
    head: int
    delivery: Raw
    more: int = 0
    payload: Raw = Raw(b"")
    results: Raw = Raw(b"")


class JournalRecord(Struct, omit_defaults=True):
    """What one commit keeps beside the queue. `lines`: how many lines it has there.

    `queue_bytes`: so much of the queue was on the disk before; 0 where that is not known.
    `gone` and `emptied` are ids of deliveries that were removed, or whose content was.
    """

    commit: int
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


class KeptContent(Struct):
    """The same record, read for its content."""

    payload: bytes | None = None
    results: dict[str, bytes] | None = None


class _QueueLine(Struct, gc=False):
    homing: QueueRecord = field(name="_homing")


class _JournalLine(Struct):
    homing: JournalRecord = field(name="_homing")


class _ContentLine(Struct):
    homing: KeptContent = field(name="_homing")


_decode_queue = json.Decoder(_QueueLine).decode
_decode_journal = json.Decoder(_JournalLine).decode
_decode_content = json.Decoder(_ContentLine).decode
_decode_object = json.Decoder(dict[str, Raw]).decode


def sealed(shown: bytes, record: bytes) -> bytes:
    """A line: `shown` is a JSON object without its last brace, `record` a whole one."""
    comma = b"" if shown == b"{" else b","
    body = b'%b%b"_homing":%b' % (shown, comma, record[:-1])
    return body + seal(crc32(body)) + b"\n"


def seal(checksum: int) -> bytes:
    """The end of a line whose other bytes have this checksum."""
    return _SEAL % checksum


def sum_in(end: bytes) -> int | None:
    """The checksum that the end of a line states."""
    found = _SEALED_SUM.fullmatch(end)
    return None if found is None else int(found[1], 16)


def is_whole(line: bytes) -> bool:
    """Whether Homing has written exactly this line (given without its line feed)."""
    return line[-SEAL_BYTES:] == seal(crc32(memoryview(line)[:-SEAL_BYTES]))


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


def queue_record(line: bytes) -> QueueRecord:
    return _decode_queue(line).homing


def journal_record(line: bytes) -> JournalRecord:
    return _decode_journal(line).homing


def kept_content(line: bytes) -> KeptContent:
    return _decode_content(line).homing
