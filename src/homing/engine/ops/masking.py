"""Records without personal data: addresses are masked, and what people wrote is left out.

Everything that is shown is made from these records, so it is masked with them.
"""

from __future__ import annotations

from msgspec.structs import replace

from homing.domain.delivery import Attempt, Delivery, Fact, Receipt
from homing.domain.errors import NotAllowed
from homing.domain.redaction import mask_address, mask_addresses
from homing.engine.process.pausing import BY_FAULT
from homing.engine.work.handlers import EVENT_ROUTE

HIDDEN = "[hidden]"
# In the metadata of an event's child: a name of the application's code.
HANDLER = "handler"


class PersonalDataHidden(NotAllowed):
    """The caller's role does not see personal data; `field` names what asks for some."""

    def __init__(self, refused: str, field: str | None = None) -> None:
        super().__init__(f"this role may not {refused}")
        self.field = field


def masked_delivery(delivery: Delivery) -> Delivery:
    failure, receipt = delivery.failure, delivery.receipt
    shown = {HANDLER} if delivery.route == EVENT_ROUTE else set()
    return replace(
        delivery,
        source=mask_addresses(delivery.source),
        key=_masked(delivery.key),
        # Not every recipient is an address with an @.
        recipients=tuple(
            replace(each, address=mask_address(each.address), detail=_masked(each.detail))
            for each in delivery.recipients
        ),
        failure=None
        if failure is None
        else replace(failure, detail=mask_addresses(failure.detail), refused={}, trace=None),
        receipt=None if receipt is None else _masked_receipt(receipt),
        failure_history=tuple(
            replace(cycle, last_error=_masked(cycle.last_error), reason=HIDDEN)
            for cycle in delivery.failure_history
        ),
        metadata={
            name: value if name in shown else HIDDEN for name, value in delivery.metadata.items()
        },
    )


def _masked_receipt(receipt: Receipt) -> Receipt:
    """The evidence of an operator is free text."""
    by_operator = receipt.evidence == "operator"
    return replace(receipt, detail=HIDDEN if by_operator else _masked(receipt.detail))


def masked_attempt(attempt: Attempt) -> Attempt:
    return replace(attempt, detail=_masked(attempt.detail))


def masked_audit(fact: Fact) -> Fact:
    """Reasons and notes are free text about a person's mail."""
    value = fact.value or {}
    kept = {
        name: mask_addresses(each) if isinstance(each, str) and name != "actor" else each
        for name, each in value.items()
    }
    return replace(fact, value={**kept, "reason": HIDDEN})


def masked_pause(fact: Fact) -> Fact:
    """A fault's own reason stays: it is not a person's text."""
    value = fact.value or {}
    by_fault = value.get("by") == BY_FAULT
    reason = mask_addresses(str(value.get("reason") or "")) if by_fault else HIDDEN
    return replace(fact, value={**value, "reason": reason})


def _masked(text: str | None) -> str | None:
    return None if text is None else mask_addresses(text)
