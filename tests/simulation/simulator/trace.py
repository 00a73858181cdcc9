"""What happened, in order: a digest of all of it, and the last of it word by word."""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Callable
from typing import TypeAlias

import msgspec

Word: TypeAlias = str | int | float | bool | None
Event: TypeAlias = tuple[float, str, str, tuple[Word, ...]]

KEPT = 400
_encode = msgspec.msgpack.Encoder().encode


class Trace:
    """Two runs of one seed are the same run when their digests are equal."""

    def __init__(self, now_s: Callable[[], float], sink: Callable[[str], None] | None = None):
        self._now_s = now_s
        self._sink = sink
        self._digest = hashlib.blake2b(digest_size=8)
        self.last: deque[Event] = deque(maxlen=KEPT)
        self.length = 0

    def note(self, who: str, what: str, *words: Word) -> None:
        event = (self._now_s(), who, what, words)
        self.length += 1
        self.last.append(event)
        self._digest.update(_encode(event))
        if self._sink is not None:
            self._sink(show(event))

    @property
    def digest(self) -> str:
        return self._digest.hexdigest()

    def about(self, subject: str, limit: int = 60) -> list[str]:
        """The last events that name `subject`, or simply the last ones."""
        found = [event for event in self.last if subject and subject in event[3]]
        return [show(event) for event in (found or list(self.last))[-limit:]]


def show(event: Event) -> str:
    at_s, who, what, words = event
    return f"{at_s:12.4f} {who:<10} {what:<18} {' '.join(str(word) for word in words)}"
