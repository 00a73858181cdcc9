"""Finds the one bit whose flip has damaged a line, by the checksum that the line carries.

CRC-32 is linear: for lines of one length, what a flipped bit changes in the checksum depends on its
place alone, and no two places in less than 2^32 bits change the same. So the difference between
both checksums names the place.
"""

from __future__ import annotations

from collections.abc import Iterator
from zlib import crc32

from homing.stores.jsonl.lines import SEAL_BYTES, SEALED_SUM, is_whole, seal, sum_in

_BITS = tuple(1 << number for number in range(8))
_FEED = b"\n"
_FLIPPED_FEEDS = bytes(_FEED[0] ^ bit for bit in _BITS)
# What one step over a byte of zeros makes of a difference, and back.
_STEP = tuple(crc32(bytes([number])) ^ crc32(b"\0") for number in range(256))
_STEP_OF_TOP = {step >> 24: (number, step) for number, step in enumerate(_STEP)}
_BIT_OF_DIFFERENCE = {_STEP[bit]: bit for bit in _BITS}


def corrected(data: bytes) -> bytes | None:
    """This data with one bit flipped back, if that makes its first line whole; else None.

    `data` extends to the end of the second line, because the bit may be in a line feed, or may
    have made one.
    """
    for found in _candidates(*data.partition(_FEED)):
        if len(found) <= len(data) and all(map(is_whole, found.split(_FEED)[:-1])):
            return found + data[len(found) :]
    return None


def whole_parts(line: bytes) -> tuple[int, int, int]:
    """Of a damaged line with its line feed: where a whole first part ends, and where a whole
    second part begins and ends. Its length stands for a place that is not there."""
    ends = (seal.end() for seal in SEALED_SUM.finditer(line))
    first = next((end for end in ends if is_whole(line[:end])), 0)
    end = len(line.removesuffix(_FEED))
    place = line.find(b'{"', first + 1)
    while place >= 0:
        if is_whole(line[place:end]):
            return first, place, end
        place = line.find(b'{"', place + 1)
    return first, len(line), end


def _candidates(line: bytes, feed: bytes, after: bytes) -> Iterator[bytes]:
    """The bit is inside the line, or the line feed is not one, or a byte of the line became
    one. In the last case the second part of the line follows."""
    if (inside := _with_bit_back(line)) is not None:
        yield inside + _FEED
    rest, _, _ = after.partition(_FEED)
    for byte in _FLIPPED_FEEDS:
        yield line + bytes([byte]) + rest + _FEED
    for sealed in SEALED_SUM.finditer(line):
        if sealed.end() < len(line):
            yield line[: sealed.end()] + _FEED + line[sealed.end() + 1 :] + feed


def _with_bit_back(line: bytes) -> bytes | None:
    body = line[:-SEAL_BYTES]
    expected, found = seal(crc32(body)), line[-SEAL_BYTES:]
    if sum(int.bit_count(a ^ b) for a, b in zip(expected, found, strict=False)) == 1:
        return body + expected
    given = sum_in(found)
    if given is None:
        return None
    difference = crc32(body) ^ given
    for place in range(len(body) - 1, -1, -1):
        bit = _BIT_OF_DIFFERENCE.get(difference)
        if bit is not None:
            return body[:place] + bytes([body[place] ^ bit]) + line[place + 1 :]
        number, step = _STEP_OF_TOP[difference >> 24]
        difference = ((difference ^ step) << 8 & 0xFFFFFFFF) | number
    return None
