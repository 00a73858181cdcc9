"""What a webhook submits for one paid session, and what intake refuses."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from homing import Request
from homing.content import addresses
from homing.domain.errors import InvalidRequest
from homing.domain.message import Email, decode_message
from homing.plugins import Admitted

SOURCE = "verdicts"
TEMPLATE = "verdict"
TIERS = ("quick", "full", "strategy")
PAID = "paid"


class Verdict(Struct, frozen=True, kw_only=True):
    """`verdict` is the JSON text as received: it is stored and sent byte for byte."""

    session_id: str
    customer_email: str | None
    tier: str
    query: str
    verdict: str
    payment_status: str | None


def request_for(verdict: Verdict, *, retry_id: str) -> Request:
    """The session is the idempotency key; `retry_id` is a random UUID of version 4."""
    message = Email(
        to=verdict.customer_email or (),
        template_id=TEMPLATE,
        variables={
            "session_id": verdict.session_id,
            "tier": verdict.tier,
            "query": verdict.query,
            "verdict": verdict.verdict,
            "payment_status": verdict.payment_status,
        },
    )
    return Request(
        message=message,
        key=verdict.session_id,
        source=SOURCE,
        delivery_id=retry_id,
        # Seen by the lines of the logs, which are made without the payload.
        metadata={"tier": verdict.tier},
    )


def variables_of(payload: bytes) -> Mapping[str, str]:
    message = decode_message(payload)
    if not isinstance(message, Email):
        raise InvalidRequest("payload", "is not a verdict")
    return message.variables


def check(verdict: Verdict) -> None:
    """Raise InvalidRequest for what may not be recorded, whether there is an address or not."""
    if verdict.payment_status != PAID:
        raise InvalidRequest("payment_status", "is not paid")
    if verdict.tier not in TIERS:
        raise InvalidRequest("tier", f"must be one of {', '.join(TIERS)}")
    # Nothing that could forge a word or a line in the logs.
    if not _is_one_word(verdict.session_id):
        raise InvalidRequest("session_id", "must be one word")
    if verdict.customer_email:
        if not _is_one_word(verdict.customer_email):
            raise InvalidRequest("customer_email", "must be one address")
        addresses.parse(verdict.customer_email, "customer_email")


def admit_verdict(message: Email) -> Admitted:
    """What may never be sent is refused here and leaves no record."""
    given = message.variables
    check(
        Verdict(
            session_id=str(given.get("session_id")),
            customer_email=message.to[0] if len(message.to) == 1 else "",
            tier=str(given.get("tier")),
            query=str(given.get("query")),
            verdict=str(given.get("verdict")),
            payment_status=given.get("payment_status"),
        )
    )
    if len(message.to) != 1:
        raise InvalidRequest("customer_email", "must be one address")
    return Admitted.of(message)


def _is_one_word(text: str) -> bool:
    return text.isprintable() and text.split() == [text]
