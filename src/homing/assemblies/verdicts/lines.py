"""The lines written when a verdict ends: in the alert file and in the delivery log."""

from __future__ import annotations

from homing.assemblies.verdicts.graph_answers import error_code
from homing.domain.delivery import Delivery
from homing.stores.shape import iso_utc


def alert_line(delivery: Delivery) -> str:
    code = delivery.failure.code if delivery.failure else None
    return (
        f"[ALERT][oracle-email-retry] DEAD LETTER: session_id={delivery.key}"
        f" customer={delivery.recipients[0].address} tier={delivery.metadata['tier']}"
        f" attempts={delivery.attempts_spent} last_error={error_code(code)}"
    )


def delivery_log_line(delivery: Delivery) -> str:
    """`attempt=0` is the call made while the caller waited."""
    accepted_at_ms = delivery.receipt.accepted_at_ms if delivery.receipt else None
    return (
        f"{iso_utc(accepted_at_ms or delivery.updated_at_ms)} DELIVERED session={delivery.key}"
        f" to={delivery.recipients[0].address} tier={delivery.metadata['tier']}"
        f" attempt={delivery.attempts_spent}"
    )
