"""Verbs on many deliveries by filter: counted, predicted, rate-limited, stopped on failures."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import AsyncIterator, Coroutine, Iterator
from typing import Any, Literal, get_args

from msgspec import Struct, convert, structs

from homing.domain.delivery import Delivery, Fact, FactValue, FailedBecause
from homing.domain.errors import HomingError, InvalidRequest, NotAllowed, NotFound, Overloaded
from homing.engine.ops.bounded import count_up_to
from homing.engine.ops.delivery_filter import DeliveryFilter
from homing.engine.ops.operations import Operations
from homing.engine.ops.verbs import BULK_VERBS, VERBS, BulkVerb
from homing.engine.ops.writer import signed
from homing.ports import Clock, Cursor, Facet, Query, Random, Store

log = logging.getLogger("homing.engine")

BULK_ACTIONS = "bulk_actions"
STOP_ASKED = "bulk_stop"
STOPPED_BY_OPERATOR = "stopped by an operator"
PROCESS_ENDED = "the process was stopped"
PAGE = 100
MOST_AT_ONCE = 10
# While it runs its progress is written this often; if it is older, its process has died.
KEEP_EVERY_S = 1.0
SILENT_AFTER_S = 15.0
# How many of those replayed are looked at before the next one.
LOOK_AT = 10
# Those that may have been accepted already are chosen by name only.
CHOSEN_BY_DEFAULT = tuple(word for word in get_args(FailedBecause) if word != "uncertain")


class BulkProgress(Struct):
    """The progress of a bulk action; kept as a fact, so that any process can read it.

    `matched` is what the filter found at the start. `refused` were changed by others in between.
    `uncertain_left_out` counts matching dead letters that the filter does not name as uncertain.
    `stopped_because` is the error class that came back after a replay, or a sentence.
    """

    bulk_id: str
    verb: BulkVerb
    matched: int
    done: int = 0
    refused: int = 0
    state: Literal["running", "done", "stopped", "failed"] = "running"
    stopped_because: str | None = None
    uncertain_left_out: int = 0


class Prediction(Struct, frozen=True):
    """What a verb would do to one delivery: its state afterwards, or why the verb is refused."""

    delivery: Delivery
    after: Delivery | None = None
    refused_because: str | None = None

    @property
    def is_cancelled(self) -> bool:
        """Closed before it has failed: a dismissed dead letter keeps its reason."""
        after = self.after
        return after is not None and after.state == "dismissed" and after.failed_because is None


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


def selected(verb: BulkVerb, query: Query) -> Query:
    """The query, narrowed to deliveries to which the verb applies.

    Dead letters that are `uncertain` are selected only by a query that names this reason, because
    they may have been accepted.
    """
    given = query.facets
    if given is None:
        given = tuple(Facet(state=state) for state in sorted(VERBS[verb].sources))
    return structs.replace(query, facets=tuple(_narrowed(verb, given)))


def _narrowed(verb: BulkVerb, facets: tuple[Facet, ...]) -> Iterator[Facet]:
    # A status word may stand for every reason: then it does not name this one.
    named = {facet.failed_because for facet in facets if facet.state == "failed"} == {"uncertain"}
    for facet in facets:
        if facet.state not in VERBS[verb].sources:
            continue
        if facet.state == "failed" and facet.failed_because is None:
            for because in CHOSEN_BY_DEFAULT:
                yield structs.replace(facet, failed_because=because)
        elif named or facet.failed_because != "uncertain":
            yield facet


def left_out(verb: BulkVerb, query: Query) -> Query | None:
    """The uncertain dead letters that match and are left out; None: there can be none."""
    if "failed" not in VERBS[verb].sources:
        return None
    given = query.facets or (Facet(state="failed"),)
    facets = [facet for facet in given if facet.state == "failed"]
    if all(facet.failed_because == "uncertain" for facet in facets):
        return None  # named, or no dead letters are asked for
    found = [facet for facet in facets if facet.failed_because in (None, "uncertain")]
    uncertain = tuple(structs.replace(facet, failed_because="uncertain") for facet in found)
    return structs.replace(query, facets=uncertain) if uncertain else None


class BulkActions:
    """Runs verbs on many deliveries in the background; each change is audited by itself.

    A replay stops when the error that it should repair comes back. The outcomes are read from the
    store, because workers of any process may have written them.
    """

    def __init__(
        self, store: Store, ops: Operations, clock: Clock, rng: Random, *, time_scale: float = 1.0
    ) -> None:
        self._silent_after_ms = SILENT_AFTER_S * 1000 * time_scale
        self._store = store
        self._ops = ops
        self._clock = clock
        self._rng = rng
        self._running: dict[str, _Run] = {}

    async def _selected(self, verb: BulkVerb, chosen: DeliveryFilter, *, everything: bool) -> Query:
        if verb not in BULK_VERBS:
            raise InvalidRequest("verb", f"must be one of {', '.join(BULK_VERBS)}")
        if chosen == DeliveryFilter() and not everything:
            raise InvalidRequest("filter", "has no condition; everything must be asked for by name")
        return selected(verb, await self._ops._query(chosen))

    async def count(
        self,
        verb: BulkVerb,
        chosen: DeliveryFilter,
        *,
        everything: bool = False,
        bounded: bool = False,
    ) -> int:
        """How many deliveries the verb would change; if `bounded`, a number above `COUNT_UP_TO` is
        not exact. A filter without a condition needs `everything`."""
        query = await self._selected(verb, chosen, everything=everything)
        return await self._count(query, bounded=bounded)

    async def count_left_out(
        self, verb: BulkVerb, chosen: DeliveryFilter, *, bounded: bool = False
    ) -> int:
        """How many uncertain dead letters match the filter, which does not name that reason."""
        uncertain = left_out(verb, await self._ops._query(chosen))
        return 0 if uncertain is None else await self._count(uncertain, bounded=bounded)

    async def predict(
        self,
        verb: BulkVerb,
        chosen: DeliveryFilter,
        *,
        everything: bool = False,
        limit: int | None = None,
    ) -> AsyncIterator[Prediction]:
        """What the verb would do to each, newest first. Changes nothing."""
        query = await self._selected(verb, chosen, everything=everything)
        async for delivery in self._each(query, limit):
            try:
                yield Prediction(delivery, self._ops.predict(verb, delivery))
            except (NotAllowed, NotFound) as error:
                yield Prediction(delivery, refused_because=str(error))

    async def start(
        self,
        verb: BulkVerb,
        chosen: DeliveryFilter,
        *,
        actor: str,
        reason: str,
        everything: bool = False,
        per_second: float | None = None,
        limit: int | None = None,
    ) -> BulkProgress:
        """Start in the background. The returned value is updated while it runs here."""
        query = await self._selected(verb, chosen, everything=everything)
        signed(actor, reason)
        if per_second is not None and not per_second > 0:
            raise InvalidRequest("per_second", "must be more than 0")
        if len(self._running) >= MOST_AT_ONCE:
            raise Overloaded(f"{MOST_AT_ONCE} bulk actions are running already")
        matched = await self._count(query)
        progress = BulkProgress(
            self._rng.entropy(8).hex(),
            verb,
            matched,
            uncertain_left_out=await self.count_left_out(verb, chosen),
        )
        await self._keep(progress)
        pause_s = 0.0 if per_second is None else 1 / per_second
        by = {"actor": actor, "reason": reason}
        work = self._work(progress, query, by, pause_s, limit)
        run = _Run(asyncio.Event())
        self._running[progress.bulk_id] = run
        run.task = asyncio.get_running_loop().create_task(self._ended(progress, work))
        run.task.add_done_callback(lambda _: self._running.pop(progress.bulk_id, None))
        return progress

    async def show(self, bulk_id: str) -> BulkProgress:
        """The progress as it was last stored, by whichever process runs it."""
        fact, progress = await self._stored(bulk_id)
        silent_ms = self._clock.now_ms() - fact.at_ms
        is_dead = bulk_id not in self._running and silent_ms > self._silent_after_ms
        if progress.state == "running" and is_dead:
            progress.state, progress.stopped_because = "stopped", PROCESS_ENDED
        return progress

    async def _stored(self, bulk_id: str) -> tuple[Fact, BulkProgress]:
        for fact in await self._store.facts(BULK_ACTIONS, bulk_id):
            if fact.key == bulk_id:
                return fact, convert({"bulk_id": bulk_id, **(fact.value or {})}, BulkProgress)
        raise NotFound(f"no bulk action {bulk_id}")

    async def stop(self, bulk_id: str, *, actor: str = "", reason: str = "") -> None:
        """Stop it before its next delivery, in whichever process it runs. What is done stays."""
        # As it is stored: a process that was only paused stops when it goes on.
        if (await self._stored(bulk_id))[1].state == "running":
            by: FactValue = {"actor": actor, "reason": reason}
            await self._store.save([], [Fact(STOP_ASKED, bulk_id, self._clock.now_ms(), by)])
        if bulk_id in self._running:
            self._running[bulk_id].stop_asked.set()

    async def finished(self) -> None:
        """Return once every bulk action started here has ended."""
        await asyncio.gather(*(run.task for run in self._running.values() if run.task))

    async def close(self) -> None:
        """Stop all that run here."""
        tasks = [run.task for run in self._running.values() if run.task]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _ended(self, progress: BulkProgress, work: Coroutine[Any, Any, None]) -> None:
        """While it runs, and however it ends, its fact says so."""
        task = asyncio.get_running_loop().create_task(work)
        try:
            while not (await asyncio.wait((task,), timeout=KEEP_EVERY_S))[0]:
                with contextlib.suppress(HomingError):
                    await self._keep(progress)
            await task
            progress.state = "stopped" if progress.stopped_because else "done"
        except asyncio.CancelledError:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            progress.state, progress.stopped_because = "stopped", PROCESS_ENDED
        except Exception as error:
            log.exception("bulk action %s failed", progress.bulk_id)
            progress.state, progress.stopped_because = "failed", type(error).__name__
        finally:
            with contextlib.suppress(HomingError):
                await self._keep(progress)

    async def _work(
        self,
        progress: BulkProgress,
        query: Query,
        by: dict[str, str],
        pause_s: float,
        limit: int | None,
    ) -> None:
        untried: deque[Replayed] = deque()
        async for delivery in self._each(query, None):
            if limit is not None and progress.done >= limit:
                break
            await self._look(progress, untried)
            if progress.stopped_because or await self._is_stop_asked(progress):
                return
            try:
                after = await self._use(progress.verb, delivery, by)
            except (NotAllowed, NotFound):
                progress.refused += 1  # changed or removed by others in between
                continue
            progress.done += 1
            if progress.verb == "replay":
                error_class = delivery.failure.error_class if delivery.failure else ""
                untried.append(Replayed(after.id, after.cycle, error_class))
            if pause_s:
                await self._keep(progress)
                await pause(pause_s, self._running[progress.bulk_id].stop_asked)
        await self._look(progress, untried)

    async def _use(self, verb: BulkVerb, delivery: Delivery, by: dict[str, str]) -> Delivery:
        seen: dict[str, Any] = {"cycle": delivery.cycle} if VERBS[verb].takes("cycle") else {}
        return await self._ops.use(verb, delivery.id, **seen, **by)

    async def _is_stop_asked(self, progress: BulkProgress) -> bool:
        asked = await self._store.facts(STOP_ASKED, progress.bulk_id)
        if asked:
            progress.stopped_because = STOPPED_BY_OPERATOR
        return bool(asked)

    async def _look(self, progress: BulkProgress, untried: deque[Replayed]) -> None:
        """Read the outcomes of the oldest ones; those not tried yet are read again later."""
        for _ in range(min(LOOK_AT, len(untried))):
            one = untried.popleft()
            outcome = one.outcome(await self._store.get(one.delivery_id))
            if outcome == "same error":
                progress.stopped_because = one.error_class
                return
            if outcome is None:
                untried.append(one)

    async def _count(self, query: Query, *, bounded: bool = False) -> int:
        count = count_up_to(self._store, query) if bounded else self._store.count(query)
        return sum((await count).values())

    async def _each(self, query: Query, limit: int | None) -> AsyncIterator[Delivery]:
        cursor: Cursor | None = None
        given = 0
        while limit is None or given < limit:
            page = await self._ops._page(query, cursor, PAGE)
            for delivery in page.items[: None if limit is None else limit - given]:
                yield delivery
            given += len(page.items)
            cursor = page.next
            if cursor is None:
                return

    async def _keep(self, progress: BulkProgress) -> None:
        value = structs.asdict(progress)
        fact = Fact(BULK_ACTIONS, value.pop("bulk_id"), self._clock.now_ms(), value)
        await self._store.save([], [fact])


async def pause(pause_s: float, stop_asked: asyncio.Event) -> None:
    """Between two deliveries; ends early when a stop is asked for."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(pause_s):
            await stop_asked.wait()


class _Run(Struct):
    stop_asked: asyncio.Event
    task: asyncio.Task[None] | None = None
