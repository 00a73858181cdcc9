"""Which headers a caller may set: names of this table, and X- names of safe letters alone.

A structured header is read by programs: its value is written as it is. Encoded words, which only
free text and names may have, would break a link in `List-Unsubscribe` or an id in `References`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Literal, TypeAlias

from msgspec import Struct

from homing.content import addresses
from homing.content.characters import check_line, require_text
from homing.content.header_lines import address_line, structured_line, text_line
from homing.content.limits import Limits, too_large
from homing.domain.errors import InvalidRequest

# A header line may have 998 characters; a word must fit into one with the header's name.
MAX_WORD_CHARS = 900

MESSAGE_ID = "Message-ID"
SENDER = "Sender"

_MESSAGE_ID = r"<[!-;=?A-~]+@[!-;=?-~]+>"

Kind: TypeAlias = Literal["text", "structured", "address"]


class _Rule(Struct, frozen=True):
    """How a header is spelt, and what its value is; a structured one has a shape."""

    name: str
    kind: Kind = "text"
    shape: re.Pattern[str] = re.compile("")
    hint: str = ""


def _rule(name: str, shape: str, hint: str) -> _Rule:
    return _Rule(name, "structured", re.compile(shape), hint)


_RULES = (
    _Rule("Comments"),
    _Rule("Keywords"),
    _Rule("Organization"),
    _Rule("Disposition-Notification-To", "address"),
    _Rule(SENDER, "address"),
    _rule(
        "Auto-Submitted", r"no|auto-generated|auto-replied|auto-notified", "such as auto-generated"
    ),
    _rule("Content-Language", r"[A-Za-z0-9-]+(?:, ?[A-Za-z0-9-]+)*", "language tags"),
    _rule("Feedback-ID", r"[!-~]+(?: [!-~]+)*", "printable ASCII"),
    _rule("Importance", r"(?i:high|normal|low)", "high, normal or low"),
    _rule(MESSAGE_ID, _MESSAGE_ID, "an id in angle brackets"),
    _rule("In-Reply-To", rf"{_MESSAGE_ID}(?: +{_MESSAGE_ID})*", "message ids in angle brackets"),
    _rule("References", rf"{_MESSAGE_ID}(?: +{_MESSAGE_ID})*", "message ids in angle brackets"),
    _rule("List-Archive", r"<[!-;=?-~]+>", "a URL in angle brackets"),
    _rule("List-Help", r"<[!-;=?-~]+>(?:, *<[!-;=?-~]+>)*", "URLs in angle brackets"),
    _rule("List-Id", r"(?:[ -;=?-~]* )?<[A-Za-z0-9._-]+>", "a list name in angle brackets"),
    _rule("List-Owner", r"<[!-;=?-~]+>(?:, *<[!-;=?-~]+>)*", "URLs in angle brackets"),
    _rule("List-Post", r"NO|<[!-;=?-~]+>(?:, *<[!-;=?-~]+>)*", "URLs in angle brackets, or NO"),
    _rule("List-Subscribe", r"<[!-;=?-~]+>(?:, *<[!-;=?-~]+>)*", "URLs in angle brackets"),
    _rule("List-Unsubscribe", r"<[!-;=?-~]+>(?:, *<[!-;=?-~]+>)*", "URLs in angle brackets"),
    _rule("List-Unsubscribe-Post", r"List-Unsubscribe=One-Click", "List-Unsubscribe=One-Click"),
    _rule("Precedence", r"(?i:bulk|list|junk)", "bulk, list or junk"),
    _rule("Priority", r"(?i:normal|urgent|non-urgent)", "normal, urgent or non-urgent"),
    _rule("Sensitivity", r"(?i:personal|private|company-confidential)", "such as private"),
)
ALLOWED = {rule.name.lower(): rule for rule in _RULES}

_EXTENSION = re.compile(r"[Xx]-[A-Za-z0-9](?:[A-Za-z0-9-]{0,68}[A-Za-z0-9])?")
# Some relays take further recipients or another envelope from these.
_ORDERS = re.compile(
    r"x-(?:smtpapi|bcc|cc|to|mc-bccaddress|mailgun-recipient-variables|return-path"
    r"|envelope-.*|original-.*|rcpt-.*)"
)


def check_headers(headers: Mapping[str, str], limits: Limits) -> dict[str, str]:
    """The caller's headers with the names as the table spells them, each at most once."""
    if not isinstance(headers, Mapping):
        raise InvalidRequest("headers", "must be an object of names and values")
    if len(headers) > limits.headers:
        raise too_large("headers", len(headers), limits.headers, "headers")
    checked: dict[str, str] = {}
    for given, value in headers.items():
        rule = _rule_for(given)
        if rule.name.lower() in map(str.lower, checked):
            raise InvalidRequest(f"headers.{rule.name}", "is given twice")
        checked[rule.name] = _value(rule, value, limits)
    return checked


def header_line(name: str, value: str) -> str:
    """The header as it is written; InvalidRequest for a name or value that may not be."""
    rule = _rule_for(name)
    field = f"headers.{rule.name}"
    if rule.kind == "address":
        return address_line(rule.name, (value,), field)
    if rule.kind == "structured":
        return structured_line(rule.name, value, field)
    return text_line(rule.name, value, field)


def _rule_for(name: object) -> _Rule:
    name = require_text(name, "headers")
    if rule := ALLOWED.get(name.lower()):
        return rule
    if not _EXTENSION.fullmatch(name):
        # A name that could be shown safely is shown; any other is not repeated.
        shown = f"headers.{name}" if re.fullmatch(r"[A-Za-z0-9-]{1,70}", name) else "headers"
        raise InvalidRequest(shown, "is not a header that may be set")
    if _ORDERS.fullmatch(name.lower()):
        raise InvalidRequest(f"headers.{name}", "controls mail relays and may not be set")
    return _Rule(name)


def _value(rule: _Rule, value: object, limits: Limits) -> str:
    field = f"headers.{rule.name}"
    text = require_text(value, field)
    check_line(text, field)
    text = text.strip(" ")
    if not text:
        raise InvalidRequest(field, "is empty")
    if len(text) > limits.header_chars:
        raise too_large(field, len(text), limits.header_chars, "characters")
    if rule.kind == "address":
        return str(addresses.parse(text, field))
    if rule.kind == "structured":
        if not rule.shape.fullmatch(text):
            raise InvalidRequest(field, f"must be {rule.hint}")
        if max(map(len, text.split(" "))) > MAX_WORD_CHARS:
            raise InvalidRequest(field, f"has a word of more than {MAX_WORD_CHARS} characters")
    return text
