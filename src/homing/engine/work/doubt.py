"""A delivery in doubt: evidence first, then the token window, then the route's policy."""

from __future__ import annotations

import asyncio

from homing.domain import transitions
from homing.domain.delivery import Delivery, Receipt
from homing.domain.identity import provider_token
from homing.engine.commit.settlement import PendingSave
from homing.engine.process.process import Process
from homing.engine.work.claimed_work import ClaimedWork
from homing.engine.work.outcomes import conclude_found, save_of
from homing.ports import Absent, Found, Unknown


async def settle_doubt(work: ClaimedWork) -> PendingSave | None:
    """The outcome without a send; None: continue and send. Also for evidence found by a claim."""
    found = await _evidence_for(work)
    delivery, plan, now_ms = work.delivery, work.plan, work.now_ms
    if isinstance(found, Found):
        return conclude_found(work, found.receipt)
    # Once some recipients have it the token is another one: that the provider has nothing
    # under it says nothing about the attempt that put the others in doubt.
    partly = any(r.outcome == "accepted" for r in delivery.recipients)
    if isinstance(found, Absent) and not partly:
        work.delivery = transitions.dispel_doubt(delivery).delivery
        return None
    since_ms = delivery.maybe_sent_at_ms or now_ms
    patient = now_ms < since_ms + plan.doubt_patience_s * 1000
    if isinstance(found, Unknown) and patient and not delivery.doubt_waived:
        due_at_ms = now_ms + max(round(found.ask_again_s * 1000), 1)
        change = transitions.await_evidence(delivery, now_ms=now_ms, due_at_ms=due_at_ms)
        return save_of(work, "await_evidence", change)
    if _token_window_lasts(work, now_ms):
        work.delivery = transitions.rely_on_token(delivery).delivery
        return None
    if not delivery.doubt_waived and (plan.on_unknown == "hold" or await _in_doubt_too_often(work)):
        change = transitions.dead_letter(delivery, "uncertain", plan=plan, now_ms=now_ms)
        return save_of(work, "hold", change)
    if transitions.overspent(delivery, plan) is None:
        work.delivery = transitions.waive_doubt(delivery).delivery
    return None


async def _in_doubt_too_often(work: ClaimedWork) -> bool:
    """Whether a person has to decide on another send."""
    if work.plan.max_doubtful_sends is None:
        return False
    attempts = await work.process.store.attempts(work.delivery.id)
    doubtful = sum(one.maybe_sent and one.cycle == work.delivery.cycle for one in attempts)
    return doubtful >= work.plan.max_doubtful_sends


def _token_window_lasts(work: ClaimedWork, now_ms: int) -> bool:
    provider, committed_at_ms = work.route.provider, work.delivery.committed_at_ms
    if provider is None or committed_at_ms is None:
        return False
    # Half of the window is kept back for clocks that disagree and for the send itself.
    window_ms = provider.token_window_s * 500
    # A mark dated in the future shows that clocks disagree: then no window is trusted.
    return window_ms > 0 and 0 <= now_ms - committed_at_ms < window_ms


async def _evidence_for(work: ClaimedWork) -> Found | Absent | Unknown | None:
    """None: the provider cannot be asked. A lookup that fails or times out is not evidence."""
    delivery = work.delivery
    if work.receipt is not None:
        return Found(work.receipt)
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
    """The acceptance that an earlier owner could not store, or received too late."""
    await process.journal.read_back()
    for fact in await process.store.facts("late_outcome", f"{delivery.id}/"):
        value = fact.value or {}
        if int(value.get("payload_no") or 1) != delivery.payload_no:
            continue
        if value.get("status") == "done" and value.get("stage") == delivery.stage:
            return Receipt(str(value.get("notification_id") or ""), evidence="late")
    return None
