"""Single submissions share one preparation, one write and one call of observers.

Otherwise 64 concurrent callers would be 64 preparations and 64 calls of every observer. No
submission waits for others: it is prepared when the next batch is made.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Generic, TypeAlias, TypeVar, cast

from homing.domain.delivery import New
from homing.domain.writes import write_of_new
from homing.engine.commit.group_commit import GroupCommit, PutResult
from homing.ports import Added, Existing, Kind, Put

T = TypeVar("T")
Answer: TypeAlias = tuple[New, Added | Existing]
Waiting: TypeAlias = tuple[T, "asyncio.Future[Answer]"]
Tell: TypeAlias = Callable[[Sequence[New]], None]
MAX_BATCH = 256
# More than this is given to an idle store in halves: it may answer the first one, whose callers
# come with their next submissions, while it writes the second. From then on the two take turns.
MIN_HALF = 16


class Submissions(Generic[T]):
    """`prepare` makes new deliveries of what was submitted, or raises if one of them is refused."""

    def __init__(
        self, commits: GroupCommit, prepare: Callable[[Sequence[T]], Sequence[New]], tell: Tell
    ) -> None:
        self._commits = commits
        self._prepare = prepare
        self._tell = tell
        self._waiting: list[Waiting[T]] = []
        commits.attach("add", self)

    def add(self, submitted: T) -> asyncio.Future[Answer]:
        """As the store's `add` of one. Observers are told before it is answered."""
        future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._waiting.append((submitted, future))
        self._commits.wake("add")
        return future

    def take(self, limit: int, *, is_idle: bool) -> Prepared | None:
        number = min(len(self._waiting), limit, MAX_BATCH)
        if is_idle:
            number = min(number, max(-(-len(self._waiting) // 2), MIN_HALF))
        batch, self._waiting = self._waiting[:number], self._waiting[number:]
        puts, new, futures = self._prepared([one for one in batch if not one[1].done()])
        if not new:
            return self.take(limit, is_idle=is_idle) if self._waiting else None
        return Prepared(puts, new, futures, self._tell)

    def _prepared(
        self, batch: Sequence[Waiting[T]]
    ) -> tuple[list[Put], list[New], list[asyncio.Future[Answer]]]:
        """Those that are not refused; the others are told so, each by itself."""
        projection = self._commits.projection
        try:
            new = [*self._prepare([submitted for submitted, _ in batch])]
            puts = [Put((write_of_new(one, projection),)) for one in new]
        except Exception as error:
            if len(batch) == 1:
                _refuse(batch[0][1], error)
                return [], [], []
        else:
            return puts, new, [future for _, future in batch]
        each = [self._prepared([one]) for one in batch]
        return (
            [put for puts, _, _ in each for put in puts],
            [one for _, some, _ in each for one in some],
            [future for _, _, some in each for future in some],
        )


class Prepared:
    """Submissions of one batch, on their way to the store."""

    kind: Kind = "add"

    def __init__(
        self,
        puts: Sequence[Put],
        new: Sequence[New],
        futures: Sequence[asyncio.Future[Answer]],
        tell: Tell,
    ) -> None:
        self.puts = puts
        self._new = new
        self._futures = futures
        self._tell = tell

    def answer(self, answers: Sequence[PutResult]) -> None:
        added = [
            one
            for one, answer in zip(self._new, answers, strict=True)
            if not isinstance(answer, Exception) and isinstance(answer[0], Added)
        ]
        try:
            if added:
                self._tell(added)
        finally:
            for future, one, answer in zip(self._futures, self._new, answers, strict=True):
                if isinstance(answer, Exception):
                    _refuse(future, answer)
                elif not future.done():  # else its caller was cancelled
                    future.set_result((one, cast("Added | Existing", answer[0])))


def _refuse(future: asyncio.Future[Answer], error: Exception) -> None:
    if not future.done():
        future.set_exception(error)
