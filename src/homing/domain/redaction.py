"""Keeps secrets and personal data out of error details, logs and dead letters.

The text comes from outside and may be long or hostile, so no pattern here may take more
than linear time: prefixes are possessive, repeats are bounded, and the text is cut first.
"""

from __future__ import annotations

import hashlib
import re

from homing.domain.known_secrets import without_known_secrets

MAX_DETAIL_CHARS = 500
MAX_TRACE_CHARS = 4000
# How many characters are read for each one shown: redaction shortens, and the work stays bounded.
_LOOKED_AT = 8

_QUOTED = r"\"(?:[^\"\\]|\\.)*+(?:\"|$)|'(?:[^'\\]|\\.)*+(?:'|$)|\\\"[^\"]*+(?:\"|$)"
# Words that stand after "Basic" or "Bearer" in plain English.
_SPOKEN = (
    r"(?!(?:auth|authentication|authorization|access|challenge|realm|token|tokens)\b(?![.~+/=-]))"
)

_ADDRESS = re.compile(
    r"(?:\"[^\"@\r\n]{1,64}\"|(?<![\w.!#$%&'*+/=?^`{|}~-])[\w.!#$%&'*+/=?^`{|}~-]++)"
    r"@(?:\[[^\]\s]{1,64}\]|[\w-]++(?:\.[\w-]++)*+)"
)

# Ordered: the first pattern that fits wins the text it covers.
_PATTERNS: tuple[tuple[re.Pattern[str], str], ...] = (
    (
        re.compile(
            r"-----BEGIN [A-Z ]{0,30}PRIVATE KEY-----[\s\S]*?(?:-----END [A-Z ]{0,40}-----|\Z)"
        ),
        "[redacted]",
    ),
    (
        re.compile(
            r"(?i)((?:authorization|cookie)[\"']?\s{0,3}[=:]\s{0,3})(?:" + _QUOTED + r"|[^\r\n]+)"
        ),
        r"\1[redacted]",
    ),
    (re.compile(rf"(?i)\b(bearer|basic|negotiate|ntlm)\s{{1,3}}{_SPOKEN}\S+"), r"\1 [redacted]"),
    (
        re.compile(r"\b(AUTH [A-Z0-9-]{3,20}) (?!(?:PLAIN|LOGIN|XOAUTH2|CRAM|SCRAM)\b)\S+"),
        r"\1 [redacted]",
    ),
    (
        re.compile(
            r"(?i)(?<![a-z0-9+.-])([a-z][a-z0-9+.-]*+://)(?:[^\s/@:]{0,200}:\S{0,1000}|[^\s/@]{0,1000})@"
        ),
        r"\1[redacted]@",
    ),
    (
        re.compile(
            r"(?i)((?:passw(?:or)?d|passphrase|pwd|pass(?![a-z])|secret|token|signature|sig(?![a-z])"
            r"|(?:api|access|private)[_-]?key|credential|refresh)[\w-]{0,40}+\\?[\"']?\s{0,3}[=:]\s{0,3})"
            r"(?!\[redacted\])(?:" + _QUOTED + r"|[^\s,;&}]+)"
        ),
        r"\1[redacted]",
    ),
    (re.compile(r"(?<![\w-])eyJ[\w-]{8,}+\.[\w-]{4,}+(?:\.[\w-]*+)?"), "[redacted]"),
    (
        re.compile(
            r"(?<![\w-])(?:(?:sk|pk|rk|whsec|hmg|gh[opsu]|xox[abp])[_-][\w-]{12,}+|AKIA[0-9A-Z]{12,}+)"
        ),
        "[redacted]",
    ),
    (_ADDRESS, "[address]"),
    (re.compile(r"(?i)(?<![\w.+-])[\w.+-]++%40[\w-]++(?:\.[\w-]++)*+"), "[address]"),
)
# A status, a date or the address of a machine is not a person's number.
_NUMBER = re.compile(
    r"(?<![\w.-])(?:"
    r"(?P<harmless>[2-5]\d\d[ -]\d\.\d{1,3}\.\d{1,3}(?![\d.])"
    r"|\d{4}-\d\d-\d\d(?:[ T]\d\d:\d\d(?::\d\d(?:[.,]\d{1,9})?)?)?(?!\d)"
    r"|\d{1,3}(?:\.\d{1,3}){3}(?![\d.]))"
    r"|\+?\(?\d[\d ()./-]{6,40}\d(?!\w))"
)
_FEWEST_DIGITS = 9
_HIDDEN = re.compile(
    r"[\x00-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff]"
)


def redact(text: str, limit: int = MAX_DETAIL_CHARS) -> str:
    """One line without secrets, addresses and control characters, cut to `limit`."""
    redacted = visible(_without_secrets(_head(text, limit * _LOOKED_AT)))
    return redacted if len(redacted) <= limit else redacted[: limit - 1] + "…"


def redact_trace(text: str) -> str:
    """A stack trace, redacted line by line; its last lines are kept."""
    redacted = _without_secrets(_tail(text, MAX_TRACE_CHARS * _LOOKED_AT))
    lines = "\n".join(visible(line) for line in redacted.split("\n"))
    return lines if len(lines) <= MAX_TRACE_CHARS else "…" + lines[1 - MAX_TRACE_CHARS :]


def visible(text: str) -> str:
    """Control and direction characters escaped, so that a terminal or log line cannot be forged."""
    return _HIDDEN.sub(_escape, text)


def mask_address(address: str) -> str:
    """Enough to recognise a known address: `a***@example.org`."""
    local, at, domain = address.rpartition("@")
    return f"{local[:1]}***@{domain}" if at else f"{address[:1]}***"


def mask_addresses(text: str) -> str:
    """The text with each address in it masked."""
    return _ADDRESS.sub(lambda found: mask_address(found.group()), text)


def digest(text: str | bytes) -> str:
    """A short stand-in for a value that may not be shown."""
    data = text.encode() if isinstance(text, str) else text
    return hashlib.sha256(data).hexdigest()[:12]


def _without_secrets(text: str) -> str:
    text = without_known_secrets(text)
    for pattern, replacement in _PATTERNS:
        text = pattern.sub(replacement, text)
    return _NUMBER.sub(_hide_number, text)


def _hide_number(found: re.Match[str]) -> str:
    digits = sum(character.isdigit() for character in found.group())
    return found.group() if found["harmless"] or digits < _FEWEST_DIGITS else "[number]"


def _head(text: str, size: int) -> str:
    """Cut at a blank where there is one: half a secret is not recognised."""
    return text if len(text) <= size else (text[:size].rsplit(None, 1) or [""])[0]


def _tail(text: str, size: int) -> str:
    return text if len(text) <= size else text[-size:].split("\n", 1)[-1]


def _escape(found: re.Match[str]) -> str:
    code = ord(found.group())
    return f"\\x{code:02x}" if code <= 0xFF else f"\\u{code:04x}"
