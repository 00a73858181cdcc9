"""Before an attempt: which work may start, and which ends without one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from homing.domain import transitions
from homing.domain.delivery import TERMINAL_STATES, FailedBecause, State
from homing.domain.errors import StoreError
from homing.engine.commit.settlement import PendingSave
from homing.engine.commit.settling import Ended, settle
from homing.engine.work.claimed_work import ClaimedWork
from homing.engine.work.doubt import settle_doubt
from homing.engine.work.family import count_children, failed_handlers
from homing.engine.work.outcomes import (
    conclude_fault,
    dead_letter_lost_stage,
    finish_stage,
    save_of,
)
from homing.engine.work.suspects import is_tried_alone
from homing.ports import Done


async def leave_out_what_may_not_start(
    batch: Sequence[ClaimedWork], *, wait: bool
) -> list[ClaimedWork]:
    """Those that may start. The others are settled: expired, out of budget, found by evidence."""
    if all_start_plainly(batch, batch[0].now_ms):
        return list(batch)
    starting: list[ClaimedWork] = []
    ended: list[Ended] = []
    for work in await _note_interruptions(batch):
        try:
            save = await _ends_before_start(work)
        except StoreError as error:
            work.process.health.met(error)
            continue  # the lease ends by itself, and the next owner looks again
        except Exception as error:
            save = conclude_fault(work, error)
        if save is None:
            starting.append(work)
        else:
            ended.append((work, save))
    if ended:
        await settle(ended, wait=wait)
    return starting


def all_start_plainly(works: Sequence[ClaimedWork], now_ms: int) -> bool:
    """Whether nothing has to be checked first, as for most batches. A single call for speed."""
    for work in works:
        delivery = work.delivery
        if not (
            work.is_stage_known
            and work.receipt is None
            and delivery.unsettled_claims == 1
            and not delivery.interruptions
            and not delivery.crashes
            and delivery.maybe_sent_at_ms is None
            and not delivery.fanned_out
            and (delivery.expires_at_ms is None or now_ms < delivery.expires_at_ms)
            and delivery.attempts_spent < (delivery.max_attempts or work.stage.retry.max_attempts)
        ):
            return False
    return True


async def _note_interruptions(batch: Sequence[ClaimedWork]) -> list[ClaimedWork]:
    """Interruptions of earlier holders are stored before anything begins, in one write."""
    noting: list[Ended] = []
    going_on: list[ClaimedWork] = []
    for work in batch:
        note = _note_for(work) if work.is_stage_known else None
        if note is None:
            going_on.append(work)
        else:
            work.is_being_written = True
            noting.append((work, note))
    if not noting:
        return going_on
    kept = await batch[0].process.saves.write_all([note for _, note in noting])
    for (work, note), is_kept in zip(noting, kept, strict=True):
        work.is_being_written = False
        if is_kept is not True:
            work.lost = True
            continue
        work.wrote(note.change)
        if work.delivery.state == "in_flight":
            going_on.append(work)
        else:
            work.settled = note.name
            work.end()
    return going_on


def _note_for(work: ClaimedWork) -> PendingSave | None:
    delivery, now_ms = work.delivery, work.now_ms
    alone = is_tried_alone(delivery)
    if delivery.unsettled_claims > 1:
        roll = work.process.rng.roll()
        change = transitions.note_interruption(
            delivery, plan=work.plan, now_ms=now_ms, roll=roll, alone=alone
        )
        return PendingSave("note_interruption", change, delivery, work.lease_end_s)
    if alone and not delivery.tried_alone:
        change = transitions.try_alone(delivery, now_ms=now_ms)
        return PendingSave("try_alone", change, delivery, work.lease_end_s)
    return None


async def _ends_before_start(work: ClaimedWork) -> PendingSave | None:
    if all_start_plainly((work,), work.now_ms):
        return None
    if not work.is_stage_known:
        return dead_letter_lost_stage(work)
    if work.delivery.maybe_sent or work.receipt is not None:
        settled = await settle_doubt(work)
        if settled is not None:
            return settled
    delivery, plan, now_ms = work.delivery, work.plan, work.now_ms
    if delivery.expires_at_ms is not None and now_ms >= delivery.expires_at_ms:
        change = transitions.dead_letter(delivery, "expired", plan=plan, now_ms=now_ms)
        return save_of(work, "expire", change)
    if (because := transitions.overspent(delivery, plan)) is not None:
        change = transitions.dead_letter(delivery, because, plan=plan, now_ms=now_ms)
        return save_of(work, because, change)
    return await _join(work) if delivery.fanned_out else None


async def _join(work: ClaimedWork) -> PendingSave:
    """The outcome of a parent by its children: all succeeded, some failed, or not all ended."""
    delivery = work.delivery
    counts = await count_children(work.process.store, delivery)
    now_ms = work.now_ms
    reasons: dict[FailedBecause, int] = {}
    for (state, required, because), number in counts.items():
        if cast(State, state) not in TERMINAL_STATES:
            change = transitions.keep_waiting(delivery, now_ms=now_ms)
            return save_of(work, "keep_waiting", change)
        if state in ("failed", "dismissed") and required == "true":
            reason = cast(FailedBecause, because or "rejected")
            reasons[reason] = reasons.get(reason, 0) + number
    if reasons:
        handlers = await failed_handlers(work.process.store, delivery)
        change = transitions.fail_with_children(
            delivery, reasons, plan=work.plan, now_ms=now_ms, handlers=handlers
        )
        return save_of(work, "fail_with_children", change)
    return save_of(work, *finish_stage(work, Done(), now_ms))
