"""Events of Stripe: their signature, and what a finished checkout says."""

from __future__ import annotations

import hashlib
import hmac

import msgspec
from msgspec import Struct

TOLERANCE_S = 300
COMPLETED = "checkout.session.completed"


class CustomerDetails(Struct, frozen=True):
    email: str | None = None


class Metadata(Struct, frozen=True):
    tier: str = ""
    query: str = ""


class Session(Struct, frozen=True):
    id: str
    payment_status: str | None = None
    customer_details: CustomerDetails | None = None
    metadata: Metadata | None = None

    @property
    def email(self) -> str | None:
        return None if self.customer_details is None else self.customer_details.email


class _Kind(Struct, frozen=True):
    type: str


class _Data(Struct, frozen=True):
    object: Session


class _Completed(Struct, frozen=True):
    data: _Data


def is_signed(body: bytes, header: str, secret: str, now_s: float) -> bool:
    """Whether one of the signatures in `Stripe-Signature` is that of this body, and is recent."""
    pairs = [part.strip().partition("=") for part in header.split(",")]
    stamps = [value for name, _, value in pairs if name == "t"]
    if len(stamps) != 1 or not (stamps[0].isascii() and stamps[0].isdigit()):
        return False
    if len(stamps[0]) > 12 or abs(now_s - int(stamps[0])) > TOLERANCE_S:
        return False
    expected = signature(body, secret, int(stamps[0]))
    given = [value for name, _, value in pairs if name == "v1"]
    return any(hmac.compare_digest(expected.encode(), value.encode()) for value in given)


def signature(body: bytes, secret: str, at_s: int) -> str:
    return hmac.new(secret.encode(), b"%d." % at_s + body, hashlib.sha256).hexdigest()


def completed_session(body: bytes) -> Session | None:
    """The session of a finished checkout; None for other events. Raises msgspec.DecodeError."""
    if msgspec.json.decode(body, type=_Kind).type != COMPLETED:
        return None
    return msgspec.json.decode(body, type=_Completed).data.object
