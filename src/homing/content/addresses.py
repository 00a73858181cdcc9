"""Mail addresses: our own strict grammar, so that exactly what was checked is sent.

The local part is a dot-atom (its non-ASCII letters need a server with SMTPUTF8) or a quoted
string of atoms, dots and spaces; the domain is a host name, kept in its ASCII form (IDNA 2008).
Address literals, source routes, groups and comments are refused.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache
from typing import TypeGuard

from msgspec import Struct

from homing.content.characters import check_label, check_name, require_text
from homing.domain.errors import InvalidRequest

MAX_LOCAL_OCTETS = 64
MAX_DOMAIN_CHARS = 253
MAX_ADDRESS_OCTETS = 254
MAX_NAME_CHARS = 200
MAX_INPUT_CHARS = 1000

_ATOM = r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~\-]"
_LABEL = r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
_DOT_ATOM = re.compile(rf"{_ATOM}+(?:\.{_ATOM}+)*")
_ATOMS_AND_DOTS = re.compile(rf"(?:{_ATOM}|\.)+")
_QUOTED = re.compile(rf'"(?:{_ATOM}|[. ])+"')
# Carriers that issued addresses such as `a..b.@docomo.ne.jp`. RFC 5321 wants those in quotes, and
# that is how they are sent.
_LOOSE_DOTS = frozenset(("docomo.ne.jp", "ezweb.ne.jp"))
_HOST = re.compile(rf"{_LABEL}(?:\.{_LABEL})*")
# What most addresses look like: nothing to normalise, nothing to look up, no step back. That a
# label has at most 63 characters follows from the length of the whole, see `is_plain`.
_PLAIN = re.compile(
    rf"{_ATOM}++(?:\.{_ATOM}++)*+@(?:[a-z0-9]++(?:-++[a-z0-9]++)*+\.)++"
    r"[a-z][a-z0-9]*+(?:-++[a-z0-9]++)*+"
)
_QUOTED_NAME = re.compile(r'"((?:[^"\\]|\\.)*)"', re.DOTALL)
_BARE_NAME = re.compile(r'[^"<>@,;:\\]*')
_NEEDS_QUOTES = re.compile(r'["<>@,;:\\]')
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
_TO_ESCAPE = re.compile(r'(["\\])')


class Address(Struct, frozen=True):
    """`spec` is what the envelope gets, byte for byte; `name` is for people."""

    spec: str
    name: str = ""

    @property
    def domain(self) -> str:
        """The part after the `@`."""
        return self.spec.rpartition("@")[2]

    @property
    def needs_smtputf8(self) -> bool:
        """Whether only servers with SMTPUTF8 (RFC 6531) accept it."""
        return not self.spec.isascii()

    def __str__(self) -> str:
        """The form that `parse` reads back as the same address."""
        if not self.name:
            return self.spec
        if _NEEDS_QUOTES.search(self.name):
            return f"{quoted(self.name)} <{self.spec}>"
        return f"{self.name} <{self.spec}>"


def parse(text: str, field: str = "address") -> Address:
    """`ann@example.org`, `Ann <ann@example.org>` or `"Ann, Sales" <ann@example.org>`."""
    if is_plain(text):
        return Address(text)
    text = require_text(text, field)
    if len(text) > MAX_INPUT_CHARS:
        raise InvalidRequest(field, f"is longer than {MAX_INPUT_CHARS} characters")
    check_name(text, field)
    text = text.strip()
    if not text.endswith(">"):
        return Address(_normalise(text, field))
    before, bracket, spec = text[:-1].rpartition("<")
    if not bracket:
        raise InvalidRequest(field, "has a > without a <")
    return Address(_normalise(spec, field), _name(before.strip(), field))


def as_stored(text: str) -> str:
    """The address of a recipient as it is stored. Not every recipient is an e-mail address."""
    try:
        return parse(text).spec
    except InvalidRequest:
        return text


def normalise(address: str, field: str = "address") -> str:
    """One bare address, trimmed, with its domain in lower case; the local part keeps its case."""
    text = require_text(address, field)
    if len(text) > MAX_INPUT_CHARS:
        raise InvalidRequest(field, f"is longer than {MAX_INPUT_CHARS} characters")
    return _normalise(text.strip(), field)


def is_plain(text: object) -> TypeGuard[str]:
    """Whether the text is a bare ASCII address already in its normal form (a quick yes)."""
    return (
        text.__class__ is str
        and len(text) <= MAX_LOCAL_OCTETS
        and _PLAIN.fullmatch(text) is not None
        and "xn--" not in text
    )


def quoted(text: str) -> str:
    """A quoted string (RFC 5322, 3.2.4) of this text."""
    escaped = _TO_ESCAPE.sub(r"\\\1", text)
    return f'"{escaped}"'


def _normalise(text: str, field: str) -> str:
    check_label(text, field)
    local, at, domain = text.rpartition("@")
    if not at:
        raise InvalidRequest(field, "is not a mail address: it has no @")
    host = _domain(domain, field)
    spec = f"{_local_part(local, host, field)}@{host}"
    if len(spec.encode()) > MAX_ADDRESS_OCTETS:
        raise InvalidRequest(field, f"is longer than {MAX_ADDRESS_OCTETS} octets")
    return spec


def _local_part(local: str, host: str, field: str) -> str:
    local = unicodedata.normalize("NFC", local)
    if not local:
        raise InvalidRequest(field, "has nothing before the @")
    if len(local.encode()) > MAX_LOCAL_OCTETS:
        raise InvalidRequest(field, f"has more than {MAX_LOCAL_OCTETS} octets before the @")
    # Letters of other scripts are atoms too (RFC 6531); what cannot be seen is not a letter.
    letters = local if local.isascii() else "".join("x" if ord(c) > 127 else c for c in local)
    if _DOT_ATOM.fullmatch(letters) and local.isprintable():
        return local
    if _QUOTED.fullmatch(local):
        bare = local[1:-1]
        return bare if _DOT_ATOM.fullmatch(bare) else local
    if host in _LOOSE_DOTS and _ATOMS_AND_DOTS.fullmatch(local):
        return _local_part(quoted(local), host, field)
    raise InvalidRequest(field, "has characters that are not allowed before the @")


def _domain(domain: str, field: str) -> str:
    if not domain:
        raise InvalidRequest(field, "has nothing after the @")
    if len(domain) > MAX_DOMAIN_CHARS:
        raise InvalidRequest(field, f"has more than {MAX_DOMAIN_CHARS} characters after the @")
    host = domain.lower() if domain.isascii() else domain
    if not host.isascii() or "xn--" in host:
        host = _international(host, field)
    if not _HOST.fullmatch(host) or len(host) > MAX_DOMAIN_CHARS:
        raise InvalidRequest(field, "has a domain that is not a host name")
    last = host.rpartition(".")[2]
    if last.isdigit():
        raise InvalidRequest(field, "has a number where the domain should be")
    if last == host and host != "localhost":
        raise InvalidRequest(field, "has a domain without a dot")
    return host


@lru_cache(maxsize=1024)
def _a_label(domain: str) -> str | None:
    # Imported late: few domains need it, and its tables take 40 ms to load.
    import idna  # noqa: PLC0415

    try:
        # It also refuses what only looks like an A-label and so imitates another name.
        return idna.encode(domain, uts46=True, std3_rules=True).decode("ascii").lower()
    except (idna.IDNAError, UnicodeError):
        return None


def _international(domain: str, field: str) -> str:
    ascii_form = _a_label(unicodedata.normalize("NFC", domain))
    if ascii_form is None:
        raise InvalidRequest(field, "has a domain that IDNA 2008 does not allow")
    return ascii_form


def _name(text: str, field: str) -> str:
    if match := _QUOTED_NAME.fullmatch(text):
        name = _ESCAPED.sub(r"\1", match.group(1)).strip()
    elif _BARE_NAME.fullmatch(text):
        name = text
    else:
        raise InvalidRequest(field, "has a display name that needs double quotes around it")
    name = unicodedata.normalize("NFC", name)
    if len(name) > MAX_NAME_CHARS:
        raise InvalidRequest(field, f"has a display name of more than {MAX_NAME_CHARS} characters")
    return name
