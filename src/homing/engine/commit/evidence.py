"""Evidence that an earlier owner has about an attempt in doubt and could not store in time."""

from __future__ import annotations

from homing.domain.delivery import Delivery, Receipt
from homing.engine.process.process import Process


async def late_receipt(process: Process, delivery: Delivery) -> Receipt | None:
    """The acceptance that an earlier owner could not store, or received too late."""
    await process.journal.read_back()
    for fact in await process.store.facts("late_outcome", f"{delivery.id}/"):
        value = fact.value or {}
        if int(value.get("payload_no") or 1) != delivery.payload_no:
            continue
        if value.get("status") == "done" and value.get("stage") == delivery.stage:
            return Receipt(str(value.get("notification_id") or ""), evidence="late")
    return None
