"""Claims and how they end: release, a dead holder, the mark before a send, an interruption."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from homing.domain.delivery import Attempt, Change, Delivery
from homing.domain.errors import NotAllowed
from homing.domain.failure import Failure
from homing.domain.policy import Plan
from homing.domain.transitions.attempts import (
    attempt_of,
    counts_as_attempt,
    next_attempt_ms,
    note_failure,
    overspent,
)
from homing.domain.transitions.states import requeue, to_state
from homing.domain.transitions.table import transition

MANY_DEATHS = 3
"""From this many deaths in a row on, a suspect is tried alone."""


@transition(sources=("pending", "in_flight", "waiting"), targets=("in_flight",))
def claim(delivery: Delivery, *, holder: str, now_ms: int, lease_until_ms: int) -> Change:
    """A worker takes it. Stores find what is due, and make this change by themselves."""
    return Change(
        replace(
            delivery,
            state="in_flight",
            holder=holder,
            due_at_ms=lease_until_ms,
            claimed_at_ms=now_ms,
            unsettled_claims=delivery.unsettled_claims + 1,
            version=delivery.version + 1,
        )
    )


@transition(sources=("in_flight",), targets=("pending",))
def release(delivery: Delivery, *, plan: Plan, now_ms: int, roll: float) -> Change:
    """The holder releases it untouched: neither an attempt nor a crash.

    Interrupted attempts of earlier holders are noted first, so that their doubt is kept.
    """
    if delivery.committing and delivery.unsettled_claims <= 1:
        raise NotAllowed(f"cannot release delivery {delivery.id}: it may have been sent")
    if delivery.unsettled_claims <= 1:
        return Change(requeue(delivery, now_ms))
    noted = note_interruption(delivery, plan=plan, now_ms=now_ms, roll=roll)
    if noted.delivery.state == "pending":
        return noted
    return replace(noted, delivery=requeue(noted.delivery, now_ms))


@transition(sources=("pending",), targets=("in_flight",))
def keep_claim(
    delivery: Delivery, *, holder: str | None, now_ms: int, lease_until_ms: int
) -> Change:
    """Due again at once: its holder makes the next attempt in the same inline call."""
    return Change(
        replace(
            delivery,
            state="in_flight",
            holder=holder,
            unsettled_claims=1,
            claimed_at_ms=now_ms,
            due_at_ms=lease_until_ms,
        )
    )


@transition(sources=("in_flight",), targets=("in_flight",))
def end_lease(delivery: Delivery, *, now_ms: int) -> Change:
    """Its holder is dead or no longer knows of it: the lease ends at once, by every clock."""
    return Change(replace(delivery, due_at_ms=0, holder=None, updated_at_ms=now_ms))


@transition(sources=("in_flight",), targets=("in_flight",))
def mark_committing(
    delivery: Delivery,
    *,
    now_ms: int,
    frozen: Mapping[str, bytes],
    lease_until_ms: int | None = None,
) -> Change:
    """The durable mark before the byte that may send: from here on a crash leaves doubt.

    Without a new lease the old one stays.
    """
    return Change(
        replace(
            delivery,
            committing=True,
            committed_at_ms=delivery.committed_at_ms or now_ms,
            due_at_ms=delivery.due_at_ms if lease_until_ms is None else lease_until_ms,
            unsettled_claims=1,
            updated_at_ms=now_ms,
        ),
        results=dict(frozen),
    )


def suspicion(delivery: Delivery) -> int:
    """How many deaths of its holders in a row it may have caused, including those not noted yet.

    The first death counts because it was held. A later one counts only if its holder had begun,
    which is proved by the mark, or by the note that an owner writes right before it begins.
    """
    if delivery.crashes:
        return MANY_DEATHS
    known = delivery.interruptions
    had_begun = delivery.interruption_noted or delivery.committing
    return known + int(delivery.unsettled_claims > 1 and (had_begun or not known))


@transition(sources=("in_flight",), targets=("in_flight",))
def try_alone(delivery: Delivery, *, now_ms: int) -> Change:
    """No other suspect runs beside it in this process: a death from here on counts against it."""
    return Change(
        replace(delivery, tried_alone=True, interruption_noted=True, updated_at_ms=now_ms)
    )


@transition(sources=("in_flight",), targets=("in_flight", "pending"))
def note_interruption(
    delivery: Delivery, *, plan: Plan, now_ms: int, roll: float, alone: bool = False
) -> Change:
    """The next owner records that earlier holders ended without an outcome.

    Where interrupted attempts count, the schedule continues as after any failed one. `alone`: its
    owner tries it as the only suspect.
    """
    lost_claims = max(delivery.unsettled_claims - 1, 0)
    may_count = counts_as_attempt(delivery, plan)
    counts = may_count and (delivery.committing or plan.interrupted_counts)
    # An owner without budget never called the step; its end costs nothing.
    counts = counts and (delivery.committing or overspent(delivery, plan) is None)
    failure = Failure(
        "interrupted",
        detail="the worker ended before the outcome was recorded",
        maybe_sent=delivery.committing,
    )
    # The rows of the ledger are for the lost claims, whose holder and time are no longer stored.
    after = replace(delivery, holder=None, claimed_at_ms=None)
    ended: list[Attempt] = []
    for nth in range(lost_claims):
        # The oldest lost claim is the one that ran; the others ended before they began, since
        # each owner notes the loss of the one before it first.
        oldest = nth == 0
        ended.append(
            attempt_of(
                after,
                "interrupted",
                now_ms,
                counted=counts and oldest,
                failure=failure if oldest else replace(failure, maybe_sent=False),
            )
        )
        after = replace(
            after,
            attempts_ended=after.attempts_ended + 1,
            attempts_spent=after.attempts_spent + int(counts and oldest),
            phase="worker",
        )
    after = note_failure(after, failure, now_ms)
    after = replace(after, holder=delivery.holder, claimed_at_ms=delivery.claimed_at_ms)
    after = replace(
        after,
        # A process may die of anything that runs in it, or be killed from outside: only a death
        # while it was tried alone counts towards poison.
        crashes=delivery.crashes + int(delivery.tried_alone),
        interruptions=suspicion(delivery),
        interruption_noted=True,
        tried_alone=alone,
        unsettled_claims=1,
        committing=False,
        phase="worker",
        updated_at_ms=now_ms,
    )
    if may_count and plan.interrupted_counts and overspent(after, plan) is None:
        due_at_ms = next_attempt_ms(after, failure, plan, now_ms, roll)
        # This is not an outcome: it stays a suspect.
        interruptions = after.interruptions
        after = to_state(after, due_at_ms=due_at_ms, now_ms=now_ms)
        after = replace(after, interruptions=interruptions)
    return Change(after, ended=tuple(ended))
