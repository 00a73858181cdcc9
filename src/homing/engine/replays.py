"""Replay by filter: many dead letters at a limited rate; stops when the old error returns."""

from __future__ import annotations

import asyncio
import contextlib
from asyncio import sleep as pause
from collections import deque
from collections.abc import Coroutine
from typing import Any

from msgspec import Struct

from homing.domain.delivery import Delivery, Fact, FactValue
from homing.domain.errors import HomingError, NotAllowed, NotFound, Overloaded
from homing.engine.desk import Desk
from homing.ports import Clock, Dice, Query, Store

REPLAYS = "replays"
PAGE = 100
MOST_AT_ONCE = 10
# How many of those replayed are looked at before the next one.
LOOK_AT = 10


class Progress(Struct):
    """The progress of a replay; kept as a fact, so that it can be read later."""

    replay_id: str
    matched: int
    replayed: int = 0
    state: str = "running"
    stopped_because: str | None = None


class Replayed(Struct, frozen=True):
    """A replayed delivery: in which cycle it is tried, and the error that it had before."""

    delivery_id: str
    cycle: int
    error_class: str

    def outcome(self, now: Delivery | None) -> str | None:
        """`good`, `same error`, or None while it has not been tried."""
        if now is None or now.cycle != self.cycle:
            return "good"  # delivered and not kept, or replayed again by an operator
        if now.failure is not None:
            return "same error" if now.failure.error_class == self.error_class else "good"
        return "good" if now.is_terminal else None


class Replays:
    """Runs replays in the background, and stops one when the old error comes back.

    The outcomes are read from the store, as workers of any process may have written them.
    """

    def __init__(self, store: Store, desk: Desk, clock: Clock, dice: Dice) -> None:
        self._store = store
        self._desk = desk
        self._clock = clock
        self._dice = dice
        self._tasks: set[asyncio.Task[None]] = set()

    async def matching(self, query: Query) -> int:
        """How many deliveries the query describes."""
        return sum((await self._store.count(query)).values())

    async def start(
        self, query: Query, *, actor: str, reason: str, per_second: float, limit: int
    ) -> Progress:
        """Replay what the query describes, up to `limit`, at `per_second`; returns at once."""
        if len(self._tasks) >= MOST_AT_ONCE:
            raise Overloaded(f"{MOST_AT_ONCE} replays are running already")
        progress = Progress(self._dice.entropy(8).hex(), await self.matching(query))
        await self._keep(progress)
        run = self._run(
            progress, query, actor=actor, reason=reason, pause_s=1 / per_second, limit=limit
        )
        task = asyncio.get_running_loop().create_task(self._ended(progress, run))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return progress

    async def finished(self) -> None:
        """Return once every replay started here has ended."""
        await asyncio.gather(*self._tasks)

    async def stop(self) -> None:
        """Stop all of them; deliveries that were replayed stay so."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _ended(self, progress: Progress, run: Coroutine[Any, Any, None]) -> None:
        """However it ends, its fact says so."""
        try:
            await run
        except asyncio.CancelledError:
            progress.state = "stopped"
            progress.stopped_because = "the process was stopped"
        except HomingError as error:
            progress.state = "failed"
            progress.stopped_because = type(error).__name__
        finally:
            with contextlib.suppress(HomingError):
                await self._keep(progress)

    async def show(self, replay_id: str) -> Progress:
        """How far a replay is. NotFound: there is none of this id."""
        for fact in await self._store.facts(REPLAYS, replay_id):
            value = fact.value or {}
            return Progress(
                fact.key,
                int(value.get("matched") or 0),
                int(value.get("replayed") or 0),
                str(value.get("state") or ""),
                None if value.get("stopped_because") is None else str(value["stopped_because"]),
            )
        raise NotFound(f"no replay {replay_id}")

    async def _run(
        self,
        progress: Progress,
        query: Query,
        *,
        actor: str,
        reason: str,
        pause_s: float,
        limit: int,
    ) -> None:
        cursor = None
        untried: deque[Replayed] = deque()
        while not _must_stop(progress, limit):
            page = await self._store.page(query, cursor, PAGE)
            for delivery in page.items:
                await self._look(progress, untried)
                if _must_stop(progress, limit):
                    break
                error_class = delivery.failure.error_class if delivery.failure else ""
                try:
                    after = await self._desk.replay(delivery.id, actor=actor, reason=reason)
                except (NotAllowed, NotFound):
                    continue  # replayed or removed by others in between
                progress.replayed += 1
                untried.append(Replayed(after.id, after.cycle, error_class))
                await pause(pause_s)
            await self._look(progress, untried)
            await self._keep(progress)
            cursor = page.next
            if cursor is None:
                break
        progress.state = "stopped" if progress.stopped_because else "done"

    async def _look(self, progress: Progress, untried: deque[Replayed]) -> None:
        """What has become of the oldest ones; those still untried are looked at again later."""
        for _ in range(min(LOOK_AT, len(untried))):
            one = untried.popleft()
            outcome = one.outcome(await self._store.get(one.delivery_id))
            if outcome == "same error":
                progress.stopped_because = one.error_class
                return
            if outcome is None:
                untried.append(one)

    async def _keep(self, progress: Progress) -> None:
        value: FactValue = {
            "matched": progress.matched,
            "replayed": progress.replayed,
            "state": progress.state,
            "stopped_because": progress.stopped_because,
        }
        fact = Fact(REPLAYS, progress.replay_id, self._clock.now_ms(), value)
        await self._store.save([], [fact])


def _must_stop(progress: Progress, limit: int) -> bool:
    return progress.stopped_because is not None or progress.replayed >= limit
