"""Which claimed work needs no call, because its handler has handled the event already."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TypeVar

from homing.engine.work.claimed_work import ClaimedWork

AnyStep = TypeVar("AnyStep")


def queue_step(step: AnyStep, work: ClaimedWork) -> AnyStep:
    """The step for all deliveries of this one's queue; the same step where queues do not differ."""
    # A check of the Protocol QueueStep would cost 40 calls.
    if (for_queue := getattr(step, "for_queue", None)) is None:
        return step
    try:
        queue: AnyStep = for_queue(work.delivery)
    except Exception:
        return step  # then each of them fails by itself
    return queue


async def note_handled(works: Sequence[ClaimedWork]) -> None:
    """Checked once for a whole claim: a check per batch would be a round trip to the store for
    each, and the waiting batches would get smaller and smaller."""
    unasked = [work for work in works if work.is_handled is None]
    if not unasked:
        return
    by_queue: dict[tuple[str, str], list[ClaimedWork]] = {}
    for work in unasked:
        queue = work.stage.name, work.delivery.queue
        if queue in by_queue:
            by_queue[queue].append(work)
        else:
            by_queue[queue] = [work]
    for group in by_queue.values():
        step = queue_step(group[0].route.steps.get(group[0].stage.name), group[0])
        handled_before = getattr(step, "handled_before", None)
        known: Collection[str] = ()
        if handled_before is not None:
            known = await handled_before([work.delivery for work in group])
        for work in group:
            work.is_handled = work.delivery.id in known
