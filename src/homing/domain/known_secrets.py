"""The secrets that this process was given: left out of every text that is kept or logged.

Patterns find what looks like a secret. A server that repeats a password in its own words is found
only by the value. The list is the process's own, because a text that quotes a secret may come by
any way: a reply, an exception of a library, a log line.
"""

from __future__ import annotations

import base64
import re

# Access tokens are renewed, so the oldest ones are forgotten.
MOST_EXPIRING = 64
# A shorter one is left out only where it stands alone: inside words it would be found everywhere.
SHORTEST_ANYWHERE = 4

_lasting: dict[str, None] = {}
_expiring: dict[str, None] = {}
_pattern: re.Pattern[str] | None = None


def mask_secret(secret: str, *, expires: bool = False) -> None:
    """`redact` leaves out this value wherever it stands, also in base64.

    Of those that expire, the newest are kept.
    """
    global _pattern  # noqa: PLW0603 - the one list of the process
    known = _expiring if expires else _lasting
    if not secret or secret in known:
        return
    known[secret] = None
    while len(_expiring) > MOST_EXPIRING:
        del _expiring[next(iter(_expiring))]
    spellings = {spelling for each in (*_lasting, *_expiring) for spelling in _spellings(each)}
    # The longest first: one secret may begin like another.
    _pattern = re.compile("|".join(map(_literal, sorted(spellings, key=len, reverse=True))))


def without_known_secrets(text: str) -> str:
    return text if _pattern is None else _pattern.sub("[redacted]", text)


def forget_secrets() -> None:
    """For tests: no secret of one is masked in another."""
    global _pattern  # noqa: PLW0603 - the one list of the process
    _lasting.clear()
    _expiring.clear()
    _pattern = None


def _spellings(secret: str) -> tuple[str, str]:
    encoded = base64.b64encode(secret.encode("utf-8", "surrogateescape"))
    return secret, encoded.decode().rstrip("=")


def _literal(secret: str) -> str:
    pattern = re.escape(secret)
    return pattern if len(secret) >= SHORTEST_ANYWHERE else rf"(?<!\w){pattern}(?!\w)"
