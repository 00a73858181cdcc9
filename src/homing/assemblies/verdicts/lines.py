"""Lines for people and for other programs: in ALERT.log and in the delivery log."""

from __future__ import annotations

from homing.assemblies.verdicts.graph_answers import error_code
from homing.domain.delivery import Delivery
from homing.domain.redaction import visible
from homing.stores.layout import iso_utc

ALERT_MARK = "[ALERT][oracle-email-retry]"


def alert_line(delivery: Delivery) -> str:
    """Of a replayed one that has died again, the line also names the cycle."""
    code = delivery.failure.code if delivery.failure else None
    again = "" if delivery.cycle == 1 else f" cycle={delivery.cycle}"
    return visible(
        f"{ALERT_MARK} DEAD LETTER: session_id={delivery.key}"
        f" customer={delivery.recipients[0].address} tier={delivery.metadata['tier']}"
        f" attempts={delivery.attempts_spent} last_error={error_code(code)}{again}"
    )


def token_alert_line(delivery: Delivery) -> str:
    return visible(
        f"{ALERT_MARK} GRAPH_REFRESH_TOKEN revoked: authorize again;"
        f" session_id={delivery.key} at={iso_utc(delivery.ended_at_ms or delivery.updated_at_ms)}"
    )


def other_alert(kind: str, text: str, at_ms: int) -> str:
    return visible(f"{ALERT_MARK} {kind}: {text} at={iso_utc(at_ms)}")


def delivery_log_line(delivery: Delivery) -> str:
    """`attempt=0` is the call made while the caller waited."""
    return visible(
        f"{iso_utc(delivery.ended_at_ms or delivery.updated_at_ms)} DELIVERED"
        f" session={delivery.key}"
        f" to={delivery.recipients[0].address} tier={delivery.metadata['tier']}"
        f" attempt={delivery.attempts_spent}"
    )
