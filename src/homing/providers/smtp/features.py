"""What a server says it can do, read from its answer to EHLO."""

from __future__ import annotations

from msgspec import Struct

from homing.providers.smtp.replies import Reply


class Features(Struct, frozen=True, kw_only=True):
    """A limit is 0 when the server names none."""

    pipelining: bool = False
    starttls: bool = False
    smtputf8: bool = False
    eight_bit_mime: bool = False
    size: bool = False
    size_limit_bytes: int = 0
    max_recipients: int = 0
    max_messages: int = 0
    auth: frozenset[str] = frozenset()


def parse_features(reply: Reply) -> Features:
    """The keywords of every line but the first, which only greets. The unknown is passed over."""
    words: dict[str, list[str]] = {}
    for line in reply.lines[1:]:
        # `AUTH=LOGIN` is how some servers still write it.
        keyword, *parameters = line.upper().replace("AUTH=", "AUTH ", 1).split() or [""]
        words.setdefault(keyword, []).extend(parameters)
    # RFC 9422: recipients of a transaction, transactions of a connection.
    limits = dict(limit.partition("=")[::2] for limit in words.get("LIMITS", ()))
    return Features(
        pipelining="PIPELINING" in words,
        starttls="STARTTLS" in words,
        smtputf8="SMTPUTF8" in words,
        eight_bit_mime="8BITMIME" in words,
        size="SIZE" in words,
        size_limit_bytes=_number((words.get("SIZE") or ["0"])[0]),
        max_recipients=_number(limits.get("RCPTMAX", "0")),
        max_messages=_number(limits.get("MAILMAX", "0")),
        auth=frozenset(words.get("AUTH", ())),
    )


def _number(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 19 else 0
