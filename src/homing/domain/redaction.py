"""Keeps secrets and personal data out of error details, logs and dead letters."""

from __future__ import annotations

import hashlib
import re

MAX_DETAIL_CHARS = 500
MAX_TRACE_CHARS = 4000
# The patterns see this much at most: a provider's reply of megabytes costs no more than a page.
MAX_INPUT_CHARS = 8000

_SECRET_NAME = (  # noqa: S105 - a pattern, not a secret
    r"(?:password|passwd|passphrase|pwd|secret|token|api[_-]?key|apikey|authorization|cookie"
    r"|credentials?|signature|private[_-]?key|session)"
)
# Ordered: what one pattern has covered, the next ones leave alone.
_PATTERNS: tuple[tuple[re.Pattern[str], str], ...] = (
    (
        re.compile(r"-----BEGIN [A-Z ]{3,40}-----.*?(?:-----END [A-Z ]{3,40}-----|\Z)", re.DOTALL),
        "[key]",
    ),
    (re.compile(r"(?i)\b((?:set-)?cookie)\s*:\s*[^\n]*"), r"\1: [redacted]"),
    (re.compile(r"(?i)\b((?:proxy-)?authorization)\s*[:=]\s*[^\n,;]*"), r"\1: [redacted]"),
    (
        re.compile(r"(?i)\b(bearer|basic|negotiate|digest|auth (?:plain|login))\s+\S+"),
        r"\1 [redacted]",
    ),
    (re.compile(r"(?i)\b([a-z][a-z0-9+.-]{1,20}://)[^\s/?#]*@"), r"\1[redacted]@"),
    (
        re.compile(
            rf"(?i)([\"']?(?<![a-z0-9])[\w-]{{0,40}}?{_SECRET_NAME}[\w-]{{0,40}}[\"']?\s*[=:]\s*)"
            r"(\"(?:[^\"\\]|\\.)*\"?|'(?:[^'\\]|\\.)*'?|[^\s,;&}]+)"
        ),
        r"\1[redacted]",
    ),
    (re.compile(r"\beyJ[\w-]{8,}\.[\w-]{4,}(?:\.[\w-]*)?"), "[redacted]"),
    (re.compile(r"\b(?:sk|pk|rk|whsec|xox[abp]|ghp|gho|hmg)[_-][A-Za-z0-9_-]{12,}"), "[redacted]"),
    (re.compile(r"\bAKIA[A-Z0-9]{12,}"), "[redacted]"),
    (re.compile(r'"[^"\n@]{1,64}"@[\w.-]{1,255}'), "[address]"),
    (
        re.compile(r"[\w.!#$%&'*+/=?^`{|}~-]{1,64}(?:@|%40)[\w-]{1,63}(?:\.[\w-]{1,63}){0,8}"),
        "[address]",
    ),
    # A telephone number has nine digits or more and is no date, no time and no IP address.
    (
        re.compile(
            r"(?<![\w.:-])(?!\d{4}-\d\d-\d\d)(?!\d{1,3}(?:\.\d{1,3}){3}(?!\d))"
            r"\+?\d(?:[ ()/-]{0,2}\d){8,18}(?![\w.:-]*\d)"
        ),
        "[number]",
    ),
)
_CONTROL = re.compile(
    r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2066-\u2069\ufeff]"
)


def redact(text: str, limit: int = MAX_DETAIL_CHARS) -> str:
    """One line without secrets, addresses and control characters, cut to `limit`."""
    return _cut(visible(_covered(text)).replace("\n", "\\n"), limit)


def redact_trace(text: str) -> str:
    """A stack trace, redacted, in lines; the newest ones are kept."""
    covered = visible(_covered(text[-MAX_INPUT_CHARS:]))
    return covered if len(covered) <= MAX_TRACE_CHARS else "…" + covered[-MAX_TRACE_CHARS:]


def visible(text: str) -> str:
    """Control and direction characters escaped, so that a terminal or log cannot be forged."""
    return _CONTROL.sub(lambda found: f"\\u{ord(found.group()):04x}", text)


def digest(text: str | bytes) -> str:
    """A short stand-in for a value that may not be shown."""
    data = text.encode() if isinstance(text, str) else text
    return hashlib.sha256(data).hexdigest()[:12]


def _covered(text: str) -> str:
    if len(text) > MAX_INPUT_CHARS:
        # Cut at a blank: half a secret is a secret that no pattern knows.
        text = text[:MAX_INPUT_CHARS].rpartition(" ")[0] or "[too long]"
    for pattern, replacement in _PATTERNS:
        text = pattern.sub(replacement, text)
    return text


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[: limit - 1] + "…"
