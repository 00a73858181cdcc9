"""Identities: fingerprints of requests, tokens for providers, Message-IDs. All deterministic."""

from __future__ import annotations

import functools
import hashlib
import unicodedata

import msgspec

from homing.domain.delivery import Delivery
from homing.domain.message import Json

_encoder = msgspec.json.Encoder(order="deterministic")

INTENT_SOURCE = "homing.intent"
# An id's place in time: milliseconds, and the order within one.
ORDER_BITS = 12
ID_CHANCE_BYTES = 8
_ORDERS = 1 << ORDER_BITS
# The first digit after the third hyphen says of which variant a UUID is; two of its bits are free.
_VARIANT = {digit: "89ab"[int(digit, 16) % 4] for digit in "0123456789abcdef"}


def fingerprint(*parts: object) -> str:
    """The same parts give the same text, on every machine and in every process."""
    return hashlib.sha256(_framed(*parts)).hexdigest()[:32]


def request_fingerprint(frame: bytes, payload: bytes) -> str:
    """The same request gives the same text; `frame` is that of its kind, and whole numbers in the
    payload are written as integers (`encode_with_spelling`).

    The times when it may be sent are not part of it: a retry computes them again. It uses SHA-256,
    which databases have, too: a producer in SQL computes the same text.
    """
    if not payload.isascii():  # text in ASCII has one spelling
        payload = msgspec.json.encode(_respelt(msgspec.json.decode(payload)))
    return hashlib.sha256(frame + payload).hexdigest()[:32]


def request_frame(route: str) -> bytes:
    """The parts of a request besides its payload; made once for many requests of one kind."""
    return _framed(route)


def _respelt(value: Json) -> Json:
    """In one of several equivalent spellings: with composed letters (NFC)."""
    if isinstance(value, str):
        return value if value.isascii() else unicodedata.normalize("NFC", value)
    if isinstance(value, list):
        return [_respelt(item) for item in value]
    if isinstance(value, dict):
        respelt = {_respelt(name): _respelt(item) for name, item in value.items()}
        # Composed names sort differently. The order of all others is that of the payload.
        return respelt if "".join(value).isascii() else dict(sorted(respelt.items()))
    return value


def _framed(*parts: object) -> bytes:
    """Kind and length come first, so that different lists of parts never give the same bytes."""
    whole: list[bytes] = []
    for part in parts:
        kind, data = (b"b", part) if isinstance(part, bytes) else (b"j", _encoder.encode(part))
        whole += (kind, len(data).to_bytes(8, "big"), data)
    return b"".join(whole)


def provider_token(delivery: Delivery) -> str:
    """The idempotency token handed to a provider: the same for every attempt with one payload.

    An amended payload is another request and gets another token. So do the remaining recipients
    once some have accepted it: a provider that discards repeated tokens would discard theirs.
    """
    whole = _own_digest(*_identity(delivery))
    accepted = [r.address for r in delivery.recipients if r.outcome == "accepted"]
    return whole if not accepted else _digest(whole, *sorted(accepted))


def message_id(delivery: Delivery, domain: str) -> str:
    """The same for all attempts, so that receivers can discard a duplicate; new after `amend`."""
    return f"<{_own_digest(*_identity(delivery))}@{domain}>"


def _identity(delivery: Delivery) -> tuple[str, ...]:
    named = (delivery.route, delivery.intent or delivery.id)
    return named if delivery.payload_no == 1 else (*named, str(delivery.payload_no))


@functools.lru_cache(maxsize=16)  # a send asks for its token right after its Message-ID
def _own_digest(*names: str) -> str:
    return _digest("token", *names)


def child_intent(parent: Delivery, intent: str) -> str:
    """A child's intent under its parent's payload: that of an amended parent is a new one."""
    return intent if parent.payload_no == 1 else f"{intent}#payload.{parent.payload_no}"


def _digest(*texts: str) -> str:
    """As `fingerprint`, for texts alone: quicker, because every send needs it."""
    whole = "".join([f"{len(text)}:{text}" for text in texts])
    return hashlib.sha256(whole.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def intent_key(route: str, intent: str) -> str:
    """The key under which an intent is taken; no two (route, intent) share one."""
    return f"{len(route)}/{route}/{intent}"


def ids_from(first: int, chance: bytes) -> list[str]:
    """UUIDs of version 7 for places in time that follow each other, one for each 8 random bytes.

    They sort by place, so that stores append to their indexes.
    """
    digits = chance.hex()
    made: list[str] = []
    at_ms, order = divmod(first, _ORDERS)
    time = _time(at_ms)
    for start in range(0, len(digits), 16):
        if order == _ORDERS:
            at_ms, order = at_ms + 1, 0
            time = _time(at_ms)
        variant, near, far = _VARIANT[digits[start]], start + 1, start + 4
        made.append(f"{time}7{order:03x}-{variant}{digits[near:far]}-{digits[far : start + 16]}")
        order += 1
    return made


def _time(at_ms: int) -> str:
    """The first two groups of digits."""
    return f"{at_ms >> 16 & 0xFFFF_FFFF:08x}-{at_ms & 0xFFFF:04x}-"
