"""An attempt may have been accepted: what follows from evidence, waiting and the route's policy."""

from __future__ import annotations

from msgspec.structs import replace

from homing.domain import recipients
from homing.domain.delivery import Change, Delivery, Receipt
from homing.domain.failure import STORE_DAMAGED, Failure
from homing.domain.policy import Plan
from homing.domain.transitions.attempts import note_failure
from homing.domain.transitions.endings import end_by_evidence, end_failed_with
from homing.domain.transitions.states import to_state
from homing.domain.transitions.table import transition

_DAMAGED = "a line about it was damaged: it is unknown whether it was sent"
# A store finds damage before any route is known, so no plan can say which notices are due. These
# are the ones that dead letters have on most routes; a notice that a route does not have is not
# given.
_NOTICES_OF_DAMAGE = ("dead_letter", "alert")


@transition(sources=("pending", "in_flight", "waiting"), targets=("failed",))
def hold_for_damage(delivery: Delivery, *, now_ms: int) -> Change:
    """Its newest record in the store was damaged: held for a person, because it may have been sent.

    The record before the damaged one is an older state, from which it would be sent again. No
    attempt is counted.
    """
    failure = Failure(STORE_DAMAGED, detail=_DAMAGED, maybe_sent=True)
    in_doubt = note_failure(delivery, failure, now_ms)
    return end_failed_with(in_doubt, "uncertain", _NOTICES_OF_DAMAGE, now_ms)


@transition(sources=("in_flight",), targets=("delivered", "failed"))
def settle_found(delivery: Delivery, *, plan: Plan, now_ms: int, receipt: Receipt) -> Change:
    """Evidence shows that an attempt in doubt was accepted: no second send is made."""
    return end_by_evidence(delivery, plan, now_ms, dated(receipt, now_ms))


@transition(sources=("in_flight",), targets=("pending",))
def await_evidence(delivery: Delivery, *, now_ms: int, due_at_ms: int) -> Change:
    """In doubt, and the provider does not know yet: ask again later. This is not an attempt."""
    return Change(to_state(delivery, due_at_ms=due_at_ms, now_ms=now_ms))


@transition(sources=("in_flight",), targets=("in_flight",))
def waive_doubt(delivery: Delivery) -> Change:
    """Send again although an attempt may have been accepted, by the route's policy."""
    return Change(replace(delivery, maybe_duplicate=True, doubt_waived=True))


@transition(sources=("in_flight",), targets=("in_flight",))
def rely_on_token(delivery: Delivery) -> Change:
    """Send again with the same token, which the provider recognises. Flagged: clocks may differ."""
    return Change(replace(delivery, maybe_duplicate=True))


@transition(sources=("in_flight",), targets=("in_flight",))
def dispel_doubt(delivery: Delivery) -> Change:
    """The provider has shown that the attempt in doubt was not accepted."""
    if delivery.payload_no > 1 and delivery.earlier_maybe_sent:
        # It was asked for the token of this payload, which says nothing about the earlier one.
        return Change(replace(delivery, maybe_sent_at_ms=None))
    return Change(
        replace(
            delivery,
            maybe_sent_at_ms=None,
            earlier_maybe_sent=False,
            recipients=recipients.dispel_doubt(delivery.recipients),
        )
    )


def dated(receipt: Receipt | None, now_ms: int) -> Receipt:
    if receipt is None:
        return Receipt(accepted_at_ms=now_ms)
    if receipt.accepted_at_ms is not None:
        return receipt
    return replace(receipt, accepted_at_ms=now_ms)
