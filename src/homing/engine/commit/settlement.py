"""Settling: outcomes are written in groups, and that of a finished send is never dropped.

Outcomes wait here until the next batch is made. While many attempts run, a small group waits for a
moment so that others can join it; otherwise it does not. If the store refuses, an outcome is
written again until its lease has ended. After that the outcome of a finished send goes to the
emergency journal, and any other work is left to the next owner.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, ClassVar, TypeAlias

from msgspec import Struct

from homing.domain.delivery import Change, Delivery, Fact
from homing.domain.errors import StoreError, StoreFull, StoreUnavailable
from homing.domain.writes import is_stored, write_of_change
from homing.engine.commit.group_commit import GroupCommit, PutResult
from homing.ports import Clock, Journal, Kind, Put, Store

log = logging.getLogger("homing.engine")

GROUP_LIMIT = 512
# A smaller group waits for others while at least this many attempts run.
ENOUGH_FOR_A_WRITE = 64
WAIT_FOR_OTHERS_S = 0.003
# Outcomes that may wait share a write that comes within this time.
LATER_S = 0.01
FIRST_RETRY_S = 0.05
LONGEST_RETRY_S = 2.0


# Whether the claim still held; or the error that left it unknown.
Kept: TypeAlias = bool | Exception


class PendingSave(Struct, eq=False):
    """A change to be saved.

    `kept` is its result, once there is one. Then `done` is called: once for all that have the same
    one and were written together.
    """

    name: str
    change: Change
    previous: Delivery | None
    give_up_at_s: float
    done: Callable[[], None] | None = None
    must_keep: bool = False
    facts: tuple[Fact, ...] = ()
    # Nothing has happened yet and a caller waits: a store without room is not asked again.
    needs_room: bool = False
    # A write that failed may have been stored all the same.
    is_unsure: bool = False
    kept: Kept | None = None


class Settlement:
    """Hands outcomes to the gatherer, and follows up what the store refuses."""

    def __init__(
        self,
        store: Store,
        commits: GroupCommit,
        clock: Clock,
        journal: Journal | None = None,
        tell: Callable[[Sequence[PendingSave]], None] | None = None,
        running: Callable[[], int] = lambda: 0,
        met: Callable[[StoreError], None] | None = None,
    ) -> None:
        """`tell` is told of what was stored, `met` of every refusal."""
        self._store = store
        self._commits = commits
        self._clock = clock
        self._journal = journal
        self._tell = tell
        self._running = running
        self._met = met
        # Those without an answer; of them, those that are in no batch.
        self._open: dict[PendingSave, None] = {}
        self._waiting: list[PendingSave] = []
        self._following_up: set[asyncio.Task[None]] = set()
        self._timer: asyncio.TimerHandle | None = None
        # One group at a time, so that outcomes and marks are written in the order of `put`.
        self._is_writing = False
        self._is_resting = False
        self._rest_s = FIRST_RETRY_S
        self._is_last_chance = False
        self._room = asyncio.Event()
        self._room.set()
        self._idle = asyncio.Event()
        self.lost_claims = 0
        self.journaled = 0
        commits.attach("save", self)

    @property
    def outstanding(self) -> int:
        return len(self._open)

    def put(self, save: PendingSave) -> None:
        """Hand it over; it is written with the next batch."""
        self._open[save] = None
        self._waiting.append(save)
        is_few = len(self._waiting) < ENOUGH_FOR_A_WRITE <= self._running()
        self._write_within(WAIT_FOR_OTHERS_S if is_few else 0.0)

    def put_all(self, group: Sequence[PendingSave]) -> None:
        """Hand over a group that is complete: it does not wait for others."""
        self._open.update(dict.fromkeys(group))
        self._waiting += group
        self._write_within(0.0)

    def put_later(self, group: Sequence[PendingSave]) -> None:
        """Hand over what may wait a moment, so that it shares a write that is made anyway."""
        self._open.update(dict.fromkeys(group))
        self._waiting += group
        self._write_within(LATER_S if self.has_room else 0.0)

    @property
    def has_room(self) -> bool:
        return len(self._waiting) < GROUP_LIMIT

    async def room(self) -> None:
        """Wait while too much is waiting to be written."""
        await self._room.wait()

    async def write(self, save: PendingSave) -> bool:
        """Write it. Returns whether the claim still held."""
        answers = _Answers([save])
        self.put(save)
        [kept] = await answers.all_there
        if isinstance(kept, Exception):
            raise kept
        return kept

    async def write_all(self, group: Sequence[PendingSave]) -> list[Kept]:
        """Write them together. Returns of each whether its claim still held."""
        if not group:
            return []
        answers = _Answers(group)
        self.put_all(group)
        return await answers.all_there

    async def drain(self, within_s: float | None = None) -> None:
        """Everything handed over so far has been written (or journaled) when this returns.

        With `within_s`, at a stop, a save is not repeated: what the store refuses, or has not
        answered by then, goes to the journal.
        """
        self._is_last_chance = within_s is not None
        try:
            async with asyncio.timeout(within_s):
                while self.outstanding or self._following_up:
                    self._write_within(0.0)
                    self._idle.clear()
                    await self._idle.wait()
        except TimeoutError:
            await self._cut_off()

    async def _cut_off(self) -> None:
        following_up = [*self._following_up]
        for task in following_up:
            task.cancel()
        await asyncio.gather(*following_up, return_exceptions=True)
        left, self._waiting = [*self._open], []
        await self._give_up(left, StoreUnavailable("no answer from the store before the stop"))

    def _write_within(self, delay_s: float) -> None:
        if not self.has_room:
            self._room.clear()
        if self._is_resting:
            return
        loop = asyncio.get_running_loop()
        if self._timer is not None:
            if delay_s and self._timer.when() <= loop.time() + delay_s:
                return
            self._timer.cancel()
            self._timer = None
        if delay_s:
            self._timer = loop.call_later(delay_s, self._commits.wake, "save")
        else:
            self._commits.wake("save")

    def take(self, limit: int, *, is_idle: bool) -> _Group | None:
        del is_idle
        if self._is_writing or self._is_resting or not self._waiting:
            return None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        number = min(limit, GROUP_LIMIT)
        saves, self._waiting = self._waiting[:number], self._waiting[number:]
        if self.has_room:
            self._room.set()
        projection = self._commits.projection
        puts: list[Put] = []
        refused: list[tuple[PendingSave, Exception]] = []
        for save in saves:
            try:
                write = write_of_change(save.change, projection)
            except Exception as error:  # the layout of a plugin makes no record of it
                refused.append((save, error))
            else:
                puts.append(Put((write,), save.facts))
        if refused:
            self._follow_up(self._after_refusals(refused, ()))
            failed = {save for save, _ in refused}
            saves = [save for save in saves if save not in failed]
        self._is_writing = bool(saves)
        return _Group(saves, puts, self._answered) if saves else None

    def _answered(self, group: Sequence[PendingSave], answers: Sequence[PutResult]) -> None:
        self._is_writing = False
        written: list[PendingSave] = []
        refused: list[tuple[PendingSave, Exception]] = []
        in_doubt: list[PendingSave] = []
        for save, answer in zip(group, answers, strict=True):
            if save.kept is not None:
                continue  # given up at a stop
            if isinstance(answer, Exception):
                refused.append((save, answer))
            elif answer[0] is True or not save.is_unsure:
                save.kept = answer[0] is True
                written.append(save)
            else:
                in_doubt.append(save)
        if written:
            self._rest_s = FIRST_RETRY_S
            self._finish(written)
        if refused or in_doubt:
            self._is_resting = True
            self._follow_up(self._after_refusals(refused, in_doubt))

    def _follow_up(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._following_up.add(task)
        task.add_done_callback(self._followed_up)

    def _followed_up(self, task: asyncio.Task[None]) -> None:
        self._following_up.discard(task)
        self._idle.set()

    def _finish(self, written: Sequence[PendingSave]) -> None:
        """All of them have an answer: kept or lost."""
        self._end(written)
        lost = [save for save in written if save.kept is False]
        if lost:
            self.lost_claims += len(lost)
            now_ms = self._clock.now_ms()
            late = [fact for save in lost for fact in late_outcome(save.change, now_ms)]
            if late:
                self._follow_up(self._note_late(late))
            written = [save for save in written if save.kept is True]
        if written and self._tell is not None:
            self._tell(written)

    async def _after_refusals(
        self, refused: Sequence[tuple[PendingSave, Exception]], in_doubt: Sequence[PendingSave]
    ) -> None:
        """Those that the store may still take are written again later; the others are given up."""
        again = []
        for save in in_doubt:
            try:
                save.kept = await self._was_stored(save.change)
            except Exception as failed:  # as if the write itself had met it
                refused = [*refused, (save, failed)]
            else:
                self._finish([save])
        for save, error in refused:
            if isinstance(error, StoreError):
                save.is_unsure = True
                again.append(save)
            else:
                log.error("an outcome cannot be written", exc_info=error)
                await self._give_up([save], error)
        errors = [error for _, error in refused if isinstance(error, StoreError)]
        if errors and self._met is not None:
            self._met(errors[0])
        if errors:
            again = await self._past_their_time(again, errors[0])
        self._waiting = again + self._waiting
        if again:
            asyncio.get_running_loop().call_later(self._rest_s, self._end_rest)
            self._rest_s = min(self._rest_s * 2, LONGEST_RETRY_S)
        else:
            self._end_rest()

    def _end_rest(self) -> None:
        self._is_resting = False
        self._write_within(0.0)

    async def _was_stored(self, change: Change) -> bool:
        """After an unanswered write: another has changed the record, or exactly our change is
        stored."""
        return is_stored(write_of_change(change), await self._store.get(change.delivery.id))

    async def _note_late(self, facts: list[Fact]) -> None:
        try:
            await self._store.save([], facts)
        except StoreError:
            return  # the attempt stays in doubt, which is what the store says

    async def _past_their_time(
        self, group: list[PendingSave], error: StoreError
    ) -> list[PendingSave]:
        """Take out those whose lease has ended; the others are tried again."""
        now_s = float("inf") if self._is_last_chance else self._clock.steady_s()
        is_full = isinstance(error, StoreFull)

        def is_over(save: PendingSave) -> bool:
            return now_s >= save.give_up_at_s or (is_full and save.needs_room)

        over = [s for s in group if is_over(s)]
        if is_full:
            # Those that wait for their turn would meet the same.
            over += [s for s in self._waiting if s.needs_room]
            self._waiting = [s for s in self._waiting if not s.needs_room]
        left = [s for s in group if not is_over(s)]
        await self._give_up(over, error)
        return left

    async def _give_up(self, group: list[PendingSave], error: Exception) -> None:
        """A finished send is kept in the journal; anything else is left to the next owner."""
        keep = [s.change for s in group if s.must_keep]
        if keep and self._journal is not None:
            try:
                await self._journal.append(keep)
                self.journaled += len(keep)
            except Exception:
                log.exception(
                    "%d finished sends could not be written to the emergency journal", len(keep)
                )
        for settlement in group:
            settlement.kept = False if settlement.must_keep else error
        self._end(group)

    def _end(self, group: Sequence[PendingSave]) -> None:
        for save in group:
            self._open.pop(save, None)
        _tell(group)
        if not self._open:
            self._idle.set()


def _tell(group: Sequence[PendingSave]) -> None:
    """An error of one listener does not stop the others from being told."""
    listeners = dict.fromkeys([settlement.done for settlement in group])
    for settlement in group:
        # A listener refers to its group: without this, only the garbage collector frees both.
        settlement.done = None
    for done in listeners:
        try:
            if done is not None:
                done()
        except Exception:
            log.exception("an outcome was written, and its listener failed")


class _Group(Struct, eq=False):
    """Outcomes of one batch, on their way to the store."""

    kind: ClassVar[Kind] = "save"
    saves: Sequence[PendingSave]
    puts: Sequence[Put]
    answered: Callable[[Sequence[PendingSave], Sequence[PutResult]], None]

    def answer(self, answers: Sequence[PutResult]) -> None:
        self.answered(self.saves, answers)


class _Answers:
    """The results of a group, with one future for all of them."""

    def __init__(self, group: Sequence[PendingSave]) -> None:
        self._group = group
        self.all_there: asyncio.Future[list[Kept]] = asyncio.get_running_loop().create_future()
        look = self._look
        for settlement in group:
            settlement.done = look

    def _look(self) -> None:
        answers = [each.kept for each in self._group if each.kept is not None]
        if len(answers) == len(self._group) and not self.all_there.done():
            self.all_there.set_result(answers)


def late_outcome(change: Change, now_ms: int) -> list[Fact]:
    """What a worker that lost its claim knows of its sends: the next owner must read it."""
    return [
        Fact(
            "late_outcome",
            f"{attempt.delivery_id}/{attempt.number}",
            now_ms,
            {
                "status": attempt.status,
                "notification_id": attempt.notification_id,
                "maybe_sent": attempt.maybe_sent,
                "stage": attempt.stage,
                "holder": attempt.holder,
                "window": "W3",
                "payload_no": change.delivery.payload_no,
            },
        )
        for attempt in change.ended
        # Who only notes that an earlier holder was interrupted has learnt nothing of that attempt,
        # and must not write over what the holder itself has noted.
        if (attempt.maybe_sent and attempt.status != "interrupted")
        or (attempt.status == "done" and change.delivery.state == "delivered")
    ]
