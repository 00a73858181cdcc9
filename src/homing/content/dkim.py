"""DKIM signatures (RFC 6376) for the domains that have a key.

A mail is signed last, for every attempt anew: the signature covers exactly what is sent, and a key
that has been replaced signs what was accepted before.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from msgspec import Struct

from homing.content import addresses
from homing.domain.errors import InvalidRequest, SettingsError

MAX_KEY_BYTES = 64 * 1024
# Receivers ignore the signatures of shorter keys (RFC 8301).
MIN_KEY_BITS = 1024

# Signed once more than they are there, so that no other one can be added.
_SEALED = (
    b"from", b"to", b"cc", b"reply-to", b"subject", b"date", b"message-id", b"mime-version",
    b"content-type", b"content-transfer-encoding",
)  # fmt: skip
# Signed where they are; mailing lists add some of them. One-click unsubscribe counts only if both
# of its headers are signed (RFC 8058).
_SIGNED = (
    b"sender", b"in-reply-to", b"references", b"list-id", b"list-help", b"list-unsubscribe",
    b"list-unsubscribe-post", b"list-subscribe", b"list-post", b"list-owner", b"list-archive",
)  # fmt: skip
_SELECTOR = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?(?:\.[A-Za-z0-9-]+)*")
_FROM = re.compile(rb"^from:((?:.|\r?\n[ \t])*)", re.IGNORECASE | re.MULTILINE)
_NAMES = re.compile(rb"^([!-9;-~]+):", re.MULTILINE)


class Key(Struct, frozen=True):
    """The private key of a domain (PEM), and the selector under which DNS has the public one."""

    domain: str
    selector: str
    pem: bytes


class Signer:
    """Signs mail by the domain of its From, or the nearest one above it that has a key."""

    def __init__(self, keys: Iterable[Key]) -> None:
        self._keys = {key.domain: key for key in keys}

    def key_for(self, domain: str) -> Key | None:
        while domain:
            if key := self._keys.get(domain):
                return key
            domain = domain.partition(".")[2]
        return None

    def __call__(self, data: bytes) -> bytes:
        """The mail with its signature on top; as it is if its domain has no key."""
        head, blank, body = data.partition(b"\r\n\r\n")
        sender = _FROM.search(head)
        key = None if sender is None else self.key_for(_domain(sender[1]))
        if key is None:
            return data
        # Imported late: few processes sign, and it takes a resolver along.
        import dkim  # noqa: PLC0415

        there = {name.lower() for name in _NAMES.findall(head)}
        signed = [name for name in (*_SEALED, *_SIGNED) if name in there]
        signing = dkim.DKIM(head + blank, linesep=b"\r\n")
        # It would take a body apart line by line, and for "relaxed" search all of it: with a large
        # file that keeps every thread waiting for a second.
        signing.body = body
        signature: bytes = signing.sign(
            key.selector.encode(),
            key.domain.encode(),
            key.pem,
            canonicalize=(b"relaxed", b"simple"),
            include_headers=[*signed, *_SEALED],
        )
        return signature + data


def signer(keys: Mapping[str, tuple[str, str]]) -> Signer:
    """By domain, the selector and the path of the key; SettingsError names what is wrong."""
    return Signer([read_key(domain, *given) for domain, given in keys.items()])


def read_key(domain: str, selector: str, path: str) -> Key:
    """SettingsError names what is wrong with the domain, the selector or the file."""
    try:
        if addresses.normalise(f"postmaster@{domain}") != f"postmaster@{domain}":
            raise SettingsError(f"dkim.{domain}", "write the domain in ASCII and in lower case")
    except InvalidRequest as refusal:
        raise SettingsError(f"dkim.{domain}", refusal.problem) from None
    if not _SELECTOR.fullmatch(selector):
        raise SettingsError(f"dkim.{domain}.selector", "is not a selector such as mail2026")
    try:
        with Path(path).open("rb") as file:
            pem = file.read(MAX_KEY_BYTES).replace(b"\r\n", b"\n")
    except OSError as error:
        raise SettingsError(f"dkim.{domain}.key_path", f"{path}: {error.strerror}") from None
    if _bits(pem) < MIN_KEY_BITS:
        problem = f"not an RSA private key in PEM, of {MIN_KEY_BITS} bits at least"
        raise SettingsError(f"dkim.{domain}.key_path", f"{path}: {problem}")
    return Key(domain, selector, pem)


def _bits(pem: bytes) -> int:
    """The length of the key; 0 if it is not one."""
    from dkim.crypto import UnparsableKeyError, parse_pem_private_key  # noqa: PLC0415 - as above

    try:
        modulus: int = parse_pem_private_key(pem)["modulus"]
    except (UnparsableKeyError, ValueError, LookupError):
        return 0
    return modulus.bit_length()


def _domain(value: bytes) -> str:
    """Of the address, which comes last in the header."""
    return value.rpartition(b"@")[2].strip(b"> \t\r\n").decode("ascii", "replace")
