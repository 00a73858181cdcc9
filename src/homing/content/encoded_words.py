"""RFC 2047: text of any script as words of ASCII, for subjects, names and free headers."""

from __future__ import annotations

import binascii
import string

MAX_WORD_CHARS = 75
_FRAME_CHARS = len("=?utf-8?q??=")

# The strictest set (RFC 2047 section 5, rule 3): right in display names and everywhere else.
_PLAIN_BYTES = (string.ascii_letters + string.digits + "!*+-/").encode()
_Q = tuple(
    "_" if byte == 0x20 else chr(byte) if byte in _PLAIN_BYTES else f"={byte:02X}"
    for byte in range(256)
)


def encode(text: str, first_room: int = MAX_WORD_CHARS) -> list[str]:
    """Encoded words; the first has at most `first_room` characters, no character is cut in two."""
    data = text.encode()
    escaped = len(data.translate(None, _PLAIN_BYTES + b" "))
    # What is mostly Latin stays readable to people who look at the source.
    as_base64 = 3 * escaped > len(data)
    room = max(min(first_room, MAX_WORD_CHARS) - _FRAME_CHARS, 12)
    words: list[str] = []
    start = 0
    while start < len(data):
        word, start = (_base64_word if as_base64 else _q_word)(data, start, room)
        words.append(word)
        room = MAX_WORD_CHARS - _FRAME_CHARS
    return words


def _base64_word(data: bytes, start: int, room: int) -> tuple[str, int]:
    end = _boundary(data, start, start + room // 4 * 3)
    encoded = binascii.b2a_base64(data[start:end], newline=False).decode("ascii")
    return f"=?utf-8?b?{encoded}?=", end


def _q_word(data: bytes, start: int, room: int) -> tuple[str, int]:
    size = room
    while True:
        end = _boundary(data, start, start + size)
        encoded = "".join(map(_Q.__getitem__, data[start:end]))
        if len(encoded) <= room:
            return f"=?utf-8?q?{encoded}?=", end
        size = min(size - 1, size * room // len(encoded))


def _boundary(data: bytes, start: int, end: int) -> int:
    """The last place at or before `end` where a character begins, but after `start`."""
    if end >= len(data):
        return len(data)
    while data[end] & 0xC0 == 0x80:
        end -= 1
    if end > start:
        return end
    raise ValueError("no room for a single character")
