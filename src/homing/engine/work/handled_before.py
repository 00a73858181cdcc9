"""Which claimed work needs no call, because its handler has handled the event already."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TypeVar

from homing.engine.work.claimed_work import ClaimedWork

AnyStep = TypeVar("AnyStep")


def lane_step(step: AnyStep, work: ClaimedWork) -> AnyStep:
    """The step for all deliveries of this one's lane; the same step where lanes do not differ."""
    # A check of the Protocol LaneStep would cost 40 calls.
    if (for_lane := getattr(step, "for_lane", None)) is None:
        return step
    try:
        lane: AnyStep = for_lane(work.delivery)
    except Exception:
        return step  # then each of them fails by itself
    return lane


async def note_handled(works: Sequence[ClaimedWork]) -> None:
    """Checked once for a whole claim: a check per batch would be a round trip to the store for
    each, and the waiting batches would get smaller and smaller."""
    unasked = [work for work in works if work.is_handled is None]
    if not unasked:
        return
    by_lane: dict[tuple[str, str], list[ClaimedWork]] = {}
    for work in unasked:
        lane = work.stage.name, work.delivery.lane
        if lane in by_lane:
            by_lane[lane].append(work)
        else:
            by_lane[lane] = [work]
    for group in by_lane.values():
        step = lane_step(group[0].route.steps.get(group[0].stage.name), group[0])
        handled_before = getattr(step, "handled_before", None)
        known: Collection[str] = ()
        if handled_before is not None:
            known = await handled_before([work.delivery for work in group])
        for work in group:
            work.is_handled = work.delivery.id in known
