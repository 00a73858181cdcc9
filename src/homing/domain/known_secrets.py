"""The secrets that this process was given: removed from every text that is kept or logged.

Patterns find what looks like a secret. A password that a server repeats in a sentence is found only
by its value. There is one list per process, because a text that quotes a secret may come from
anywhere: a reply, an exception of a library, a log line.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Iterator
from itertools import chain

# Access tokens are renewed, so the ones that were used longest ago are forgotten.
MOST_EXPIRING = 64
# A shorter one is removed only where it is a whole word: inside words it would match everywhere.
SHORTEST_ANYWHERE = 4
# A long one is found by its beginning: a reply line is too short for most access tokens, so that
# a server repeats a part of it, or all of it in several lines.
FOUND_BY_CHARS = 16

_lasting: dict[str, tuple[str, ...]] = {}
_expiring: dict[str, tuple[str, ...]] = {}
# Replaced as a whole, because other threads read it.
_by_beginning: dict[str, list[str]] = {}


def mask_secret(secret: str, *, expires: bool = False) -> None:
    """`redact` removes this value wherever it occurs, also inside base64.

    Of those that expire, the newest are kept.
    """
    if secret:
        _remember(_expiring if expires else _lasting, secret, (secret, *_in_base64(secret)))


def mask_login_response(encoded: str) -> None:
    """`redact` removes this text, which was sent to log in; the newest are kept."""
    text = encoded.rstrip("=")
    if len(text) >= SHORTEST_ANYWHERE:
        _remember(_expiring, text, (text,))


def without_known_secrets(text: str) -> str:
    found = [item for item in _by_beginning.items() if item[0] in text]
    if not found:
        return text
    parts: list[str] = []
    shown_to = 0
    for start, end in sorted(span for item in found for span in _spans(text, *item)):
        if start > shown_to or not parts:
            parts += text[shown_to:start], "[redacted]"
        shown_to = max(shown_to, end)
    return "".join(parts) + text[shown_to:]


def forget_secrets() -> None:
    """For tests: no secret of one is masked in another."""
    global _by_beginning  # noqa: PLW0603 - the one list of the process
    _lasting.clear()
    _expiring.clear()
    _by_beginning = {}


def _remember(known: dict[str, tuple[str, ...]], secret: str, spellings: tuple[str, ...]) -> None:
    global _by_beginning  # noqa: PLW0603 - the one list of the process
    is_new = known.pop(secret, None) is None
    known[secret] = spellings
    if not is_new:
        return
    while len(_expiring) > MOST_EXPIRING:
        del _expiring[next(iter(_expiring))]
    grouped: dict[str, list[str]] = {}
    for spelling in chain.from_iterable([*_lasting.values(), *_expiring.values()]):
        grouped.setdefault(spelling[:FOUND_BY_CHARS], []).append(spelling)
    _by_beginning = grouped


def _in_base64(secret: str) -> Iterator[str]:
    """Encoded alone, and as it appears after other bytes: three bytes make four characters, so
    there are three forms. Characters that depend on the bytes around it are left out."""
    data = secret.encode("utf-8", "surrogateescape")
    yield base64.b64encode(data).decode().rstrip("=")
    for before in range(3):
        encoded = base64.b64encode(bytes(before) + data).decode()
        inside = encoded[-(-before * 8 // 6) : (before + len(data)) * 8 // 6]
        if len(inside) >= SHORTEST_ANYWHERE:
            yield inside


def _spans(text: str, beginning: str, secrets: Iterable[str]) -> Iterator[tuple[int, int]]:
    start = text.find(beginning)
    while start >= 0:
        end = max(_end(text, start, secret) for secret in secrets)
        if len(beginning) >= SHORTEST_ANYWHERE or _stands_alone(text, start, end):
            yield start, end
        start = text.find(beginning, end)


def _end(text: str, start: int, secret: str) -> int:
    """Where the text stops repeating the secret. Line breaks and blanks in between are skipped."""
    end = start
    for character in secret:
        place = end
        while text[place : place + 1] != character and text[place : place + 1].isspace():
            place += 1
        if text[place : place + 1] != character:
            break
        end = place + 1
    return end


def _stands_alone(text: str, start: int, end: int) -> bool:
    return re.search(r"\w", text[start - 1 : start] + text[end : end + 1]) is None
