"""Views without personal data, for callers who may not see it: addresses are masked, and free text
is left out."""

from __future__ import annotations

from msgspec.structs import replace

from homing.domain.delivery import Delivery, Fact
from homing.domain.redaction import mask_address, mask_addresses
from homing.engine.ops.views import AttemptView, AuditView, DeliveryView, ReceiptView
from homing.engine.process.pausing import BY_FAULT

HIDDEN = "[hidden]"


def masked_delivery(view: DeliveryView) -> DeliveryView:
    receipt = view.receipt
    return replace(
        view,
        source=mask_addresses(view.source),
        idempotency_key=_masked(view.idempotency_key),
        last_error=_masked(view.last_error),
        recipients=tuple(
            replace(each, address=mask_address(each.address), detail=_masked(each.detail))
            for each in view.recipients
        ),
        receipt=None if receipt is None else _masked_receipt(receipt),
        failure_history=tuple(
            replace(cycle, last_error=_masked(cycle.last_error), reason=HIDDEN)
            for cycle in view.failure_history
        ),
        metadata=dict.fromkeys(view.metadata, HIDDEN),
    )


def _masked_receipt(receipt: ReceiptView) -> ReceiptView:
    """The evidence of an operator is free text."""
    by_operator = receipt.evidence == "operator"
    return replace(receipt, detail=HIDDEN if by_operator else _masked(receipt.detail))


def masked_attempt(view: AttemptView) -> AttemptView:
    return replace(view, detail=_masked(view.detail))


def masked_audit(view: AuditView) -> AuditView:
    """Reasons and notes are free text about a person's mail."""
    more = {name: mask_addresses(text) for name, text in view.more.items()}
    return replace(view, reason=HIDDEN, more=more)


def without_addresses(delivery: Delivery) -> Delivery:
    """For sentences built from it. Not every recipient is an address with an @."""
    masked = tuple(
        replace(each, address=mask_address(each.address)) for each in delivery.recipients
    )
    return replace(delivery, recipients=masked)


def without_reason(fact: Fact) -> Fact:
    """An entry of the audit, for sentences built from it."""
    return replace(fact, value={**(fact.value or {}), "reason": HIDDEN})


def without_persons_reason(paused: Fact) -> Fact:
    """A fault's own reason stays: it is not a person's text."""
    by_person = (paused.value or {}).get("by") != BY_FAULT
    return without_reason(paused) if by_person else paused


def _masked(text: str | None) -> str | None:
    return None if text is None else mask_addresses(text)
