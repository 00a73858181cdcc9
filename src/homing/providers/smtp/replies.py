"""Bytes from a server into replies. No I/O; nothing that comes in can make it raise."""

from __future__ import annotations

import re
from functools import lru_cache

from msgspec import Struct

MAX_LINE_BYTES = 2048  # RFC 5321 says 512; some servers are wordy
MAX_LINES = 128

_LINE = re.compile(rb"([2-5][0-9][0-9])(?:([ -])(.*))?", re.DOTALL)
_ENHANCED = re.compile(r"([245]\.[0-9]{1,3}\.[0-9]{1,3})(?:\s+|$)")


class Reply(Struct, frozen=True):
    """One complete answer. `raw` holds the text of its lines without the codes.

    `kind` is the first digit: 2 yes, 3 go on, 4 not now, 5 no.
    """

    code: int
    raw: tuple[bytes, ...]
    kind: int

    @property
    def lines(self) -> tuple[str, ...]:
        return tuple([line.decode("utf-8", "replace") for line in self.raw])

    @property
    def enhanced(self) -> str | None:
        """The status code of RFC 3463, such as `5.1.1`."""
        found = _ENHANCED.match(self.lines[0])
        return found.group(1) if found else None

    @property
    def text(self) -> str:
        """The words in one line: the enhanced code first and only once."""
        if len(self.raw) == 1:
            return self.raw[0].decode("utf-8", "replace")
        first, *others = self.lines
        enhanced = self.enhanced or ""
        words = (line.removeprefix(enhanced).strip() for line in others)
        return " ".join((first, *(word for word in words if word)))


class ReplyParser:
    """Feed it what arrives, cut wherever the network cut it.

    `broken` says why, once the server no longer sends valid SMTP; replies that were complete before
    that are still given.
    """

    __slots__ = ("_code", "_lines", "_tail", "broken")

    def __init__(self) -> None:
        self.broken: str | None = None
        self._tail = b""
        self._code = 0
        self._lines: list[bytes] = []

    @property
    def mid_reply(self) -> bool:
        """Part of a reply is held; its end has not come yet."""
        return bool(self._tail or self._lines)

    def feed(self, data: bytes) -> list[Reply]:
        """The replies that are complete now."""
        if self.broken is not None:
            return []
        replies: list[Reply] = []
        lines = (self._tail + data).split(b"\n")
        self._tail = lines.pop()
        for line in lines:
            found = _read_line(line)
            if found is not None and found.last and not self._lines:
                replies.append(found.alone)
                continue
            self.broken = self._gather(found, replies)
            if self.broken is not None:
                break
        if len(self._tail) > MAX_LINE_BYTES:
            self.broken = self.broken or "a reply line has no end"
        return replies

    def _gather(self, line: _Line | None, replies: list[Reply]) -> str | None:
        """A line of a reply of several, or what is wrong with it."""
        if line is None:
            return "the server sent something that is not an SMTP reply"
        if self._lines and line.alone.code != self._code:
            return "a reply changes its code between lines"
        if len(self._lines) >= MAX_LINES:
            return "a reply has too many lines"
        self._code = line.alone.code
        self._lines += line.alone.raw
        if line.last:
            replies.append(_reply(self._code, tuple(self._lines)))
            self._lines = []
        return None


class _Line(Struct, frozen=True):
    """`alone` is the reply that it is when no other line belongs to it."""

    last: bool
    alone: Reply


# Servers repeat themselves: three of the four answers to a message are always the same.
@lru_cache(maxsize=512)
def _read_line(line: bytes) -> _Line | None:
    found = _LINE.fullmatch(line.removesuffix(b"\r")) if len(line) <= MAX_LINE_BYTES else None
    if found is None:
        return None
    digits, separator, text = found.groups(default=b"")
    return _Line(separator != b"-", _reply(int(digits), (text,)))


def _reply(code: int, raw: tuple[bytes, ...]) -> Reply:
    return Reply(code, raw, code // 100)
