"""Evidence about an attempt in doubt: from an earlier owner, or from the provider."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from homing.domain.delivery import Delivery, Receipt
from homing.domain.identity import provider_token
from homing.engine.process import Process
from homing.ports import Absent, Found, Unknown

if TYPE_CHECKING:
    from homing.engine.claimed_work import ClaimedWork


async def evidence_for(work: ClaimedWork) -> Found | Absent | Unknown | None:
    """None: nobody can be asked. A lookup that fails or takes too long is no evidence."""
    delivery = work.delivery
    late = await late_receipt(work.process, delivery)
    if late is not None:
        return Found(late)
    lookup = work.route.lookup
    if lookup is None:
        return None
    notification_id = delivery.receipt.notification_id if delivery.receipt else None
    try:
        async with asyncio.timeout(work.stage.timeout_s):
            found = await lookup.lookup(provider_token(delivery), notification_id)
    except Exception:
        return Unknown()
    return found if isinstance(found, Found | Absent) else _unknown(found)


def _unknown(found: object) -> Unknown:
    return found if isinstance(found, Unknown) else Unknown()


async def late_receipt(process: Process, delivery: Delivery) -> Receipt | None:
    """The acceptance that an earlier owner could not store, or learnt of too late."""
    await process.read_back()
    for fact in await process.store.facts("late_outcome", f"{delivery.id}/"):
        value = fact.value or {}
        if value.get("status") == "done" and value.get("stage") == delivery.stage:
            return Receipt(str(value.get("notification_id") or ""), evidence="late")
    return None
