"""Saves outcomes together; each gets its own answer."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import TypeAlias

from msgspec.structs import replace

from homing.engine.commit.settlement import Kept, PendingSave
from homing.engine.work.claimed_work import ClaimedWork, end_all
from homing.engine.work.permits import give_permits_back

Ended: TypeAlias = tuple[ClaimedWork, PendingSave]


async def settle(ended: Sequence[Ended], *, wait: bool) -> None:
    """Pass the outcomes to the `Settlement`; with `wait` they are durable when this returns."""
    if not wait:
        hand_over(ended)
        return
    saves = ended[0][0].process.saves
    kept = await saves.write_all([save for _, save in ended])
    for (work, save), is_kept in zip(ended, kept, strict=True):
        _take_in(work, save, is_kept)
    for work, _ in ended:
        if work.delivery.state != "in_flight" or work.lost:
            work.end()
        else:
            # An inline call goes on with it, and takes a permit for its next send.
            give_permits_back((work,))


async def hand_over_and_wait(ended: Sequence[Ended]) -> None:
    """As `hand_over`; each is written or given up when this returns."""
    all_over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    hand_over(ended, all_over=all_over)
    await all_over


def hand_over(
    ended: Sequence[Ended],
    *,
    may_wait: bool = False,
    all_over: asyncio.Future[None] | None = None,
) -> None:
    """They are written with the next batch of saves; each work ends once it is written.

    With `may_wait` they wait for a moment, to share a write with others.
    """
    saves = ended[0][0].process.saves
    written = partial(_written, ended, all_over)
    for work, save in ended:
        work.settled = save.name
        save.done = written
    group = [save for _, save in ended]
    if may_wait:
        saves.put_later(group)
    else:
        saves.put_all(group)
    # After it: marks and outcomes are written in the order in which they are handed over.
    give_permits_back([work for work, _ in ended])


def _written(ended: Sequence[Ended], all_over: asyncio.Future[None] | None) -> None:
    """Some of them, mostly all, are written or given up."""
    over = [work for work, save in ended if save.kept is not None]
    for work, save in ended:
        if save.kept is not None and save.kept is not True:
            work.lost = True
            work.settled = None
    end_all(over)
    if all_over is not None and len(over) == len(ended) and not all_over.done():
        all_over.set_result(None)


def _take_in(work: ClaimedWork, save: PendingSave, kept: Kept) -> None:
    if kept is not True:
        work.lost = True
        work.settled = None
        return
    work.settled = save.name
    after = save.change.delivery
    if after.state == "in_flight":
        work.wrote(save.change)
    else:
        work.delivery = replace(after, version=after.version + 1)
