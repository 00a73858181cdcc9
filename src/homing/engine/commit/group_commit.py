"""The only gatherer: what arrives while a batch is being written shares the next one.

A batch is what the event loop has ready in this turn, or what has gathered while `DEPTH` batches
were under way. A request that fails does not make the others fail: a batch that the store refuses
is divided until the request that cannot be written is alone. A caller that is cancelled before its
request is taken withdraws it; after that it may or may not be stored.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Sequence
from itertools import islice
from typing import Any, Literal, Protocol, TypeAlias

from msgspec import Struct

from homing.domain.errors import StoreCorrupt, StoreError, StoreOutcomeUnknown, StoreUnavailable
from homing.domain.shown import Projection
from homing.ports import Answers, Batch, Commits, Kind, Put, PutAnswer, Store

log = logging.getLogger("homing.engine")

# One batch is written while the event loop answers the one before it and prepares the next.
DEPTH = 2
# So many deliveries share a batch; a larger put is a batch of its own.
LARGEST = 4096
LARGE_PUT = 1024
# Each request of a batch would meet these alone, too. Any other error may be caused by one of them.
SHARED = (StoreUnavailable, StoreOutcomeUnknown, StoreCorrupt)

Part: TypeAlias = Literal["puts", "renewals", "purges", "claims"]
_PARTS: dict[Kind, Part] = {
    "add": "puts",
    "save": "puts",
    "renew": "renewals",
    "purge": "purges",
    "claim": "claims",
}


Group: TypeAlias = tuple[Kind, Sequence[Any]]
"""Requests of one kind and one caller."""

PutResult: TypeAlias = Sequence[PutAnswer] | Exception
"""The answers to the writes of a put, or the error that it met."""


class Taken(Protocol):
    """Puts of a source that are part of a batch now."""

    @property
    def kind(self) -> Kind: ...

    @property
    def puts(self) -> Sequence[Put]: ...

    def answer(self, answers: Sequence[PutResult]) -> None:
        """In the order of the puts."""


class Source(Protocol):
    """Puts that are made when they are written, so that what arrives until then joins them."""

    def take(self, limit: int, *, is_idle: bool) -> Taken | None:
        """At most `limit` puts; None: nothing is waiting. `is_idle`: no batch is under way."""


class GroupCommit(Commits):
    """Writes to a store in batches, one queue for each of its writers."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._queues: dict[Kind, _Queue] = {}
        for kinds in store.writers:
            queue = _Queue(store)
            self._queues.update(dict.fromkeys(kinds, queue))

    @property
    def projection(self) -> Projection | None:  # type: ignore[override] # the store decides
        return self._store.projection

    def attach(self, kind: Kind, source: Source) -> None:
        """Take what this source has whenever a batch with this kind is made."""
        self._queues[kind].sources.append(source)

    def wake(self, kind: Kind) -> None:
        """A source of this kind has something to write."""
        self._queues[kind].wake()

    async def commit(self, batch: Batch) -> Answers:
        """Its requests may share their batches with others, and be written in several."""
        asked = [
            [self._submit(put.kind, put) for put in batch.puts],
            [self._submit("renew", renewal) for renewal in batch.renewals],
            [self._submit("purge", rule) for rule in batch.purges],
            [self._submit("claim", claim) for claim in batch.claims],
        ]
        return Answers(*[[await answer for answer in part] for part in asked])

    def _submit(self, kind: Kind, request: Any) -> asyncio.Future[Any]:
        size = len(request.writes) if isinstance(request, Put) else 1
        return self._queues[kind].submit(kind, request, size)


class _Waiting(Struct, eq=False):
    kind: Kind
    request: Any
    size: int
    future: asyncio.Future[Any]

    def answer(self, answer: Any) -> None:
        if self.future.done():  # its caller was cancelled
            return
        if isinstance(answer, Exception):
            self.future.set_exception(answer)
        else:
            self.future.set_result(answer)


class _Queue:
    """What waits for one writer of the store."""

    def __init__(self, store: Commits) -> None:
        self._store = store
        self.sources: list[Source] = []
        self._waiting: deque[_Waiting] = deque()
        self._large: deque[_Waiting] = deque()
        self._is_large_next = False
        self._under_way: set[asyncio.Task[None]] = set()
        self._is_called = False

    def submit(self, kind: Kind, request: Any, size: int) -> asyncio.Future[Any]:
        future = asyncio.get_running_loop().create_future()
        waiting = self._large if size > LARGE_PUT else self._waiting
        waiting.append(_Waiting(kind, request, size, future))
        self.wake()
        return future

    def wake(self) -> None:
        if not self._is_called and len(self._under_way) < DEPTH:
            self._is_called = True
            # Not a task: an application may start tasks at once, or cancel all that it finds.
            asyncio.get_running_loop().call_soon(self._start)

    def _start(self) -> None:
        self._is_called = False
        while len(self._under_way) < DEPTH:
            requests, taken = self._take()
            if not requests and not taken:
                return
            task = asyncio.get_running_loop().create_task(self._write(requests, taken))
            self._under_way.add(task)
            task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._under_way.discard(task)
        # After the callers that were just answered: what they ask for next comes along.
        self.wake()

    def _take(self) -> tuple[list[_Waiting], list[Taken]]:
        """A large put goes alone, and in turn with the rest: it may take long."""
        is_large_next, self._is_large_next = self._is_large_next, False
        if not is_large_next:
            requests, taken = self._take_small()
            if requests or taken:
                self._is_large_next = bool(self._large)
                return requests, taken
        while self._large:
            large = self._large.popleft()
            if not large.future.done():
                return [large], []
        return self._take_small() if is_large_next else ([], [])

    def _take_small(self) -> tuple[list[_Waiting], list[Taken]]:
        requests: list[_Waiting] = []
        size = 0
        while self._waiting and size < LARGEST:
            one = self._waiting.popleft()
            if not one.future.done():
                requests.append(one)
                size += one.size
        taken = []
        for source in self.sources:
            if size >= LARGEST:
                break
            try:
                some = source.take(LARGEST - size, is_idle=not self._under_way)
            except Exception:
                log.exception("a source of writes failed")
                continue
            if some is not None:
                taken.append(some)
                size += len(some.puts)
        return requests, taken

    async def _write(self, requests: Sequence[_Waiting], taken: Sequence[Taken]) -> None:
        groups: list[Group] = [(one.kind, (one.request,)) for one in requests]
        groups += [(some.kind, some.puts) for some in taken]
        try:
            answers = await self._answers(groups)
        except asyncio.CancelledError:
            unknown = StoreOutcomeUnknown("interrupted")
            _answer(requests, taken, _refusals(groups, unknown))
            raise
        _answer(requests, taken, answers)

    async def _answers(self, groups: Sequence[Group]) -> list[Sequence[Any]]:
        """For each group, the answers to its requests, or the errors that they met."""
        batch: dict[Part, list[Any]] = {}
        for kind, requests in groups:
            batch.setdefault(_PARTS[kind], []).extend(requests)
        try:
            answers = await self._store.commit(Batch(**batch))
        except Exception as error:
            if sum([len(requests) for _, requests in groups]) == 1:
                return [[error]]
            if isinstance(error, SHARED):
                return _refusals(groups, error)
            return await self._divided(groups, error)
        left = {part: iter(getattr(answers, part)) for part in batch}
        return [[*islice(left[_PARTS[kind]], len(requests))] for kind, requests in groups]

    async def _divided(self, groups: Sequence[Group], error: Exception) -> list[Sequence[Any]]:
        """Saves that the store refuses are refused together: if marks were stored before the
        outcomes that they were waiting behind, more sends than allowed would be unsaved."""
        saves = [group for group in groups if group[0] == "save"]
        if saves and isinstance(error, StoreError):
            others = [group for group in groups if group[0] != "save"]
            if not others:
                return _refusals(groups, error)
            of_saves = iter(await self._answers(saves))
            of_others = iter(await self._answers(others))
            return [next(of_saves if kind == "save" else of_others) for kind, _ in groups]
        single: list[Group] = [(kind, (one,)) for kind, requests in groups for one in requests]
        half = len(single) // 2
        found = await self._answers(single[:half]) + await self._answers(single[half:])
        left = iter([answer for [answer] in found])
        return [[*islice(left, len(requests))] for _, requests in groups]


def _answer(
    requests: Sequence[_Waiting], taken: Sequence[Taken], answers: Sequence[Sequence[Any]]
) -> None:
    left = iter(answers)
    for one in requests:
        one.answer(next(left)[0])
    for some in taken:
        found = next(left)
        try:
            some.answer(found)
        except Exception:  # an observer's, perhaps: the others are answered all the same
            log.exception("a source of writes failed to take its answers")


def _refusals(groups: Sequence[Group], error: Exception) -> list[Sequence[Any]]:
    return [[_copy(error) for _ in requests] for _, requests in groups]


def _copy(error: Exception) -> Exception:
    """One for each caller: an exception collects a trace wherever it is raised."""
    return type(error)(*error.args)
