"""Keeps secrets and personal data out of error details, logs and dead letters."""

from __future__ import annotations

import hashlib
import re

MAX_DETAIL_CHARS = 500
MAX_TRACE_CHARS = 4000

# Ordered: the first pattern that fits wins the text it covers.
_PATTERNS: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"(?i)\b(bearer|basic)\s+[a-z0-9._~+/=-]{8,}"), r"\1 [redacted]"),
    (re.compile(r"(?i)\b([a-z][a-z0-9+.-]*://)[^\s/@:]*:[^\s/@]*@"), r"\1[redacted]@"),
    (
        re.compile(
            r"(?i)([\"']?\b[\w-]*(?:password|passwd|secret|token|api[_-]?key|authorization|cookie"
            r"|credential|refresh)[\w-]*[\"']?\s*[=:]\s*)(?!Bearer|Basic)(\"[^\"]*\"|'[^']*'|[^\s,;&}]+)"
        ),
        r"\1[redacted]",
    ),
    (re.compile(r"\beyJ[\w-]{8,}\.[\w-]{4,}\.[\w-]*"), "[redacted]"),
    (
        re.compile(r"\b(?:sk|pk|rk|whsec|xox[abp]|ghp|gho|AKIA)[_-]?[A-Za-z0-9_-]{12,}"),
        "[redacted]",
    ),
    (re.compile(r"[\w.!#$%&'*+/=?^`{|}~-]+@[\w-]+(?:\.[\w-]+)+"), "[address]"),
    (re.compile(r"(?<![\w.-])\+?\d[\d ()./-]{7,}\d(?![\w.-])"), "[number]"),
)
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")


def redact(text: str, limit: int = MAX_DETAIL_CHARS) -> str:
    """The text without secrets, addresses and control characters, cut to `limit`."""
    for pattern, replacement in _PATTERNS:
        text = pattern.sub(replacement, text)
    text = visible(text)
    return text if len(text) <= limit else text[: limit - 1] + "…"


def redact_trace(text: str) -> str:
    """A stack trace, redacted; its newest lines are the ones kept."""
    redacted = redact(text, limit=len(text) + len(_PATTERNS) * 64)
    return redacted if len(redacted) <= MAX_TRACE_CHARS else "…" + redacted[-MAX_TRACE_CHARS:]


def visible(text: str) -> str:
    """Control and direction characters escaped, so that a terminal or log line cannot be forged."""
    return _CONTROL.sub(lambda found: f"\\x{ord(found.group()):02x}", text)


def digest(text: str | bytes) -> str:
    """A short stand-in for a value that may not be shown."""
    data = text.encode() if isinstance(text, str) else text
    return hashlib.sha256(data).hexdigest()[:12]
