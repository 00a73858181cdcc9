"""What may be sent: addresses exactly as validated, content that cannot end the message early."""

from __future__ import annotations

import re
import unicodedata

MAX_LOCAL_BYTES = 64
MAX_DOMAIN_BYTES = 255
MAX_ADDRESS_BYTES = MAX_LOCAL_BYTES + 1 + MAX_DOMAIN_BYTES

# Narrower than RFC 5321 where the rest is only a danger (quoted brackets and backslashes), wider
# where real mailboxes are (a dot at the end of the local part); all that intake accepts is in it.
# \x80-\U0010ffff is looked at below.
_ATEXT = r"A-Za-z0-9!#$%&'*+/=?^_`{|}~\-\x80-\U0010ffff"
_LABEL = (
    r"[A-Za-z0-9\x80-\U0010ffff](?:[A-Za-z0-9\-\x80-\U0010ffff]{0,61}[A-Za-z0-9\x80-\U0010ffff])?"
)
_DOMAIN = rf"{_LABEL}(?:\.{_LABEL})*"
_LITERAL = r"\[(?:IPv6:)?[0-9A-Fa-f:.]{2,45}\]"
_QUOTED = r"\"[ !#-;=?-\[\]-~]{1,62}\""
_ADDRESS = re.compile(rf"([{_ATEXT}.]+|{_QUOTED})@({_DOMAIN}|{_LITERAL})")
_HOST = re.compile(rf"{_DOMAIN}|{_LITERAL}")
# Controls, format and direction marks, surrogates, separators: never visible, never needed.
_HIDDEN_CATEGORIES = frozenset({"Cc", "Cf", "Cs", "Co", "Zs", "Zl", "Zp"})
# Twice as fast as `in`, which is slow where the first byte is frequent.
_LEADING_DOT = re.compile(rb"\n\.")


def address_problem(address: str) -> str | None:
    """Why this address may not be sent; None when it may, exactly as it is."""
    if len(address) > MAX_ADDRESS_BYTES:
        return "too long"
    found = _ADDRESS.fullmatch(address)
    if found is None:
        return "not a mailbox address that can be sent to"
    is_ascii = address.isascii()
    if is_ascii and len(address) <= MAX_LOCAL_BYTES:
        return None
    local, domain = found.groups()
    if not is_ascii:
        if any(unicodedata.category(character) in _HIDDEN_CATEGORIES for character in address):
            return "contains invisible or control characters"
        local, domain = local.encode(), domain.encode()
    if len(local) > MAX_LOCAL_BYTES or len(domain) > MAX_DOMAIN_BYTES:
        return "too long"
    return None


def is_host(name: str) -> bool:
    """Whether this may be said in EHLO."""
    return name.isascii() and len(name) <= MAX_DOMAIN_BYTES and bool(_HOST.fullmatch(name))


def wire_content(data: bytes) -> bytes | None:
    """The message with every line ending in CRLF, before its dots are doubled.

    None when a carriage return stands alone or there is a NUL: servers disagree on what those
    mean, and on that disagreement a second message could be smuggled in.
    """
    pairs = data.count(b"\r\n")
    if data.count(b"\r") != pairs or b"\0" in data:
        return None
    if data.count(b"\n") != pairs:
        data = data.replace(b"\r\n", b"\n").replace(b"\n", b"\r\n")
    if data and not data.endswith(b"\r\n"):
        data += b"\r\n"
    return data


def dot_stuffed(content: bytes) -> bytes:
    """`wire_content` with the leading dots doubled (RFC 5321, 4.5.2)."""
    if _LEADING_DOT.search(content):
        content = content.replace(b"\n.", b"\n..")
    return b"." + content if content.startswith(b".") else content


def header_block(content: bytes) -> bytes:
    """Everything before the first empty line."""
    return content.partition(b"\r\n\r\n")[0]
