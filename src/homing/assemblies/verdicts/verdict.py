"""What a webhook submits for one paid session, and what intake refuses."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from homing.domain.errors import InvalidRequest
from homing.domain.message import Email, decode_message
from homing.engine.admission import Request
from homing.engine.admitted import Admitted

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


def admit_verdict(message: Email) -> Admitted:
    """What may never be sent is refused here and leaves no record."""
    _check_paid(message)
    _check_tier(message)
    _check_words(message)
    return Admitted.of(message)


def _check_paid(message: Email) -> None:
    if message.variables.get("payment_status") != PAID:
        raise InvalidRequest("payment_status", "is not paid")


def _check_tier(message: Email) -> None:
    if message.variables.get("tier") not in TIERS:
        raise InvalidRequest("tier", f"must be one of {', '.join(TIERS)}")


def _check_words(message: Email) -> None:
    """One address, and nothing that could forge a word or a line in the logs."""
    if len(message.to) != 1 or not _is_one_word(message.to[0]):
        raise InvalidRequest("customer_email", "must be one address")
    if not _is_one_word(str(message.variables.get("session_id"))):
        raise InvalidRequest("session_id", "must be one word")


def _is_one_word(text: str) -> bool:
    return text.isprintable() and text.split() == [text]
