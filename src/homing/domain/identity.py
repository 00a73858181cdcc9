"""Identities: fingerprints of requests, tokens for providers, Message-IDs. All deterministic."""

from __future__ import annotations

import hashlib

import msgspec

from homing.domain.delivery import Delivery

_encoder = msgspec.json.Encoder(order="deterministic")

INTENT_SOURCE = "homing.intent"
# Of a UUID's bits, those that do not say of which version and variant it is; and those that do.
_CHANCE = ~(0xF << 76 | 0x3 << 62)
_VERSION_7 = 0x7 << 76 | 0x2 << 62


def fingerprint(*parts: object) -> str:
    """The same normalised request gives the same text, on every machine and in every process."""
    whole: list[bytes] = []
    for part in parts:
        kind, data = (b"b", part) if isinstance(part, bytes) else (b"j", _encoder.encode(part))
        # Kind and length go first, so that no two different lists of parts read the same.
        whole += (kind, len(data).to_bytes(8, "big"), data)
    return hashlib.sha256(b"".join(whole)).hexdigest()[:32]


def provider_token(delivery: Delivery) -> str:
    """The idempotency token handed to a provider: the same for every attempt with one payload.

    An amended payload is another request and gets another token, and so is what is left once
    some recipients have accepted it: a provider that folds equal tokens would fold it away.
    """
    whole = _digest("token", *_identity(delivery))
    accepted = [r.address for r in delivery.recipients if r.outcome == "accepted"]
    return whole if not accepted else _digest(whole, *sorted(accepted))


def message_id(delivery: Delivery, domain: str) -> str:
    """A fixed Message-ID lets receivers fold a possible duplicate; an amended text has its own."""
    return f"<{_digest('message', *_identity(delivery))}@{domain}>"


def _identity(delivery: Delivery) -> tuple[str, ...]:
    named = (delivery.route, delivery.intent or delivery.id)
    return named if delivery.payload_no == 1 else (*named, str(delivery.payload_no))


def child_intent(parent: Delivery, intent: str) -> str:
    """A child's intent under its parent's payload: that of an amended parent is a new one."""
    return intent if parent.payload_no == 1 else f"{intent}#payload.{parent.payload_no}"


def _digest(*texts: str) -> str:
    """As `fingerprint`, for texts alone: it stands on the way of every send."""
    whole = "".join([f"{len(text)}:{text}" for text in texts])
    return hashlib.sha256(whole.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def intent_key(route: str, intent: str) -> str:
    """The key under which an intent is taken; no two (route, intent) share one."""
    return f"{len(route)}/{route}/{intent}"


def id_from(now_ms: int, entropy: bytes) -> str:
    """A UUID of version 7: sorts by time, so that stores append instead of scattering."""
    bits = (now_ms & 0xFFFF_FFFF_FFFF) << 80 | int.from_bytes(entropy[:10], "big")
    text = f"{bits & _CHANCE | _VERSION_7:032x}"
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"
