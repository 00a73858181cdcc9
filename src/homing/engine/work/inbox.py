"""Claimed batches that wait for their turn."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterator, Sequence

from homing.engine.work.claimed_work import ClaimedWork
from homing.engine.work.steps import SendStep
from homing.engine.work.suspects import is_suspect

# A batch has at most this many members, and at most this many bytes.
MAX_BATCH = 64
MAX_BATCH_BYTES = 8 * 1024 * 1024


class Inbox:
    """First in, first out; a batch that is put back comes first."""

    def __init__(self) -> None:
        self._batches: deque[Sequence[ClaimedWork]] = deque()
        self._filled = asyncio.Event()

    def __bool__(self) -> bool:
        return bool(self._batches)

    def put(self, batch: Sequence[ClaimedWork]) -> None:
        self._batches.append(batch)
        self._filled.set()

    def put_first(self, batch: Sequence[ClaimedWork]) -> None:
        self._batches.appendleft(batch)
        self._filled.set()

    async def get(self) -> Sequence[ClaimedWork]:
        while not self._batches:
            self._filled.clear()
            await self._filled.wait()
        return self.get_nowait()

    def get_nowait(self) -> Sequence[ClaimedWork]:
        """The first batch, filled up with others of its kind: claims leave small remainders."""
        batch = self._batches.popleft()
        kind = _kind(batch[0])
        if not self._batches or kind != _kind(self._batches[0][0]) or not batch[0].stage.sends:
            return batch
        alike = list(batch)
        while self._batches and _kind(self._batches[0][0]) == kind:
            alike += self._batches.popleft()
            first, *others = _bounded(alike, most_at_once(batch[0]))
            if others:
                self._batches.extendleft(reversed(others))
                return first
        return alike

    def take_all(self) -> list[ClaimedWork]:
        works = [work for batch in self._batches for work in batch]
        self._batches.clear()
        return works


def batches(works: Sequence[ClaimedWork], most: int = MAX_BATCH) -> Iterator[list[ClaimedWork]]:
    """Batches of one plan, stage and queue, limited in number and in bytes.

    More urgent work comes first. Sends of all queues share batches. A delivery that needs a check
    first (in doubt, with children) is a batch of its own.
    """
    alike: dict[object, list[ClaimedWork]] = {}
    group: list[ClaimedWork] = []
    first: ClaimedWork | None = None
    for work in works:
        delivery = work.delivery
        # Most are like the one before: that costs no call and no lookup.
        if (
            first is None
            or work.stage is not first.stage
            or work.plan is not first.plan
            or delivery.priority != first.delivery.priority
            or delivery.queue != first.delivery.queue
            or delivery.maybe_sent_at_ms is not None
            or delivery.fanned_out
            or work.is_probe
        ):
            kind = _kind(work)
            group = alike[kind] = alike.get(kind) or []
            first = None if kind is work else work
        group.append(work)
    for group in alike.values():
        yield from _bounded(group, min(most, most_at_once(group[0])))


def _kind(work: ClaimedWork) -> object:
    """Equal for work that may share a batch."""
    delivery, stage = work.delivery, work.stage
    if delivery.maybe_sent_at_ms is not None or delivery.fanned_out or work.is_probe:
        return work
    # Suspects that hold permits are tried together, and never with healthy work.
    may_share = work.suspect_permits > 0
    if not may_share and is_suspect(delivery):
        return work
    queue = None if stage.sends else delivery.queue
    return delivery.priority, id(work.plan), stage.name, queue, may_share


def _bounded(group: list[ClaimedWork], most: int) -> Iterator[list[ClaimedWork]]:
    if sum([work.size for work in group]) <= MAX_BATCH_BYTES:
        for begin in range(0, len(group), most):
            yield group[begin : begin + most]
        return
    begin, size = 0, 0
    for place, work in enumerate(group):
        if place > begin and (place - begin >= most or size + work.size > MAX_BATCH_BYTES):
            yield group[begin:place]
            begin, size = place, 0
        size += work.size
    yield group[begin:]


def most_at_once(work: ClaimedWork) -> int:
    """How many sends their provider takes at once."""
    if not work.stage.sends:
        return MAX_BATCH
    step = work.route.steps.get(work.stage.name)
    return MAX_BATCH if isinstance(step, SendStep) and step.takes_many else 1
