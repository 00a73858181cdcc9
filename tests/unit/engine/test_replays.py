"""Replays of many: they stop themselves, whichever process has tried what was replayed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from homing.domain.failure import Failure
from homing.engine import replays
from homing.engine.replays import Progress, Replays
from homing.ports import Done, Facet, Query
from homing.testing.dice import LoadedDice
from tests.unit.engine.world import Script, World, route

GONE = Failure("gone", "reject")
FULL = Failure("mailbox_full", "reject")
DEAD = Query(facets=(Facet(state="failed"),))


async def replay_all(
    monkeypatch: pytest.MonkeyPatch,
    *second_tries: Failure | Done,
    in_pause: Callable[[World], Awaitable[Any]] = lambda worker: worker.run(),
    dead: int = 4,
) -> Progress:
    """Replay dead letters in one process while another one, with the same store, works."""
    worker = World(route(step=Script(*[GONE] * dead, *second_tries)), name="w1")
    for number in range(dead):
        await worker.submit(f"order-{number}")
    await worker.run()
    here = World(route(), store=worker.store, clock=worker.clock, name="w2")

    async def pause(_: float) -> None:
        await in_pause(worker)

    monkeypatch.setattr(replays, "pause", pause)
    running = Replays(here.store, here.engine.desk, here.clock, LoadedDice("r"))
    started = await running.start(DEAD, actor="ann", reason="x", per_second=1.0, limit=100)
    await running.finished()
    return await running.show(started.replay_id)


async def test_the_same_error_in_another_process_stops_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    progress = await replay_all(monkeypatch, Done(), GONE)

    assert (progress.replayed, progress.state) == (2, "stopped")
    assert progress.stopped_because == "gone"


@pytest.mark.parametrize("outcome", [Done(), FULL])
async def test_any_other_outcome_lets_them_go_on(
    monkeypatch: pytest.MonkeyPatch, outcome: Failure | Done
) -> None:
    progress = await replay_all(monkeypatch, *[outcome] * 4)

    assert (progress.replayed, progress.state, progress.stopped_because) == (4, "done", None)


async def test_what_is_tried_late_is_still_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[None] = []

    async def work_in_the_third(worker: World) -> None:
        pauses.append(None)
        if len(pauses) == 3:
            await worker.run()

    progress = await replay_all(monkeypatch, Done(), GONE, Done(), in_pause=work_in_the_third)

    assert (progress.replayed, progress.stopped_because) == (3, "gone")


async def test_the_last_one_of_all_is_looked_at_too(monkeypatch: pytest.MonkeyPatch) -> None:
    progress = await replay_all(monkeypatch, GONE, dead=1)

    assert (progress.state, progress.stopped_because) == ("stopped", "gone")
