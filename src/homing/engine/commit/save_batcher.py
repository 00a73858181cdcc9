"""Settling: outcomes are written in groups, and that of a finished send is never dropped.

Outcomes that arrive during a save share the next one, so groups grow with the load. While many
attempts run, a small group waits for a moment so that others can join it; otherwise it does not.
If the store refuses, the save is repeated until the lease has ended. After that the outcome of a
finished send goes to the emergency journal, and any other work is left to the next owner.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from homing.domain.delivery import Change, Delivery, Fact
from homing.domain.errors import StoreError, StoreFull, StoreUnavailable
from homing.ports import Clock, Journal, Store

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


class PendingSave(Struct):
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
    kept: Kept | None = None


class SaveBatcher:
    """Gathers settlements and saves them in groups."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        journal: Journal | None = None,
        tell: Callable[[Sequence[PendingSave]], None] | None = None,
        running: Callable[[], int] = lambda: 0,
        met: Callable[[StoreError], None] | None = None,
    ) -> None:
        self._store = store
        self._clock = clock
        self._journal = journal
        self._tell = tell
        self._running = running
        # Is told of every refusal.
        self._met = met
        self._gathered: list[PendingSave] = []
        self._is_enough = False
        self._under_way = 0
        # All that has gathered may wait for another write.
        self._may_wait = False
        self._later: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[None] | None = None
        self._saving: list[PendingSave] = []
        self._is_last_chance = False
        self._room = asyncio.Event()
        self._room.set()
        self.lost_claims = 0
        self.journaled = 0

    @property
    def outstanding(self) -> int:
        return len(self._gathered) + self._under_way

    def put(self, settlement: PendingSave) -> None:
        """Hand it over; it is written with the next group."""
        self._gathered.append(settlement)
        self._go()

    def put_all(self, group: Sequence[PendingSave]) -> None:
        """Hand over a group that is complete: it does not wait for others."""
        self._gathered += group
        self._is_enough = True
        self._go()

    def put_later(self, group: Sequence[PendingSave]) -> None:
        """Hand over what may wait a moment, so that it shares a write that is made anyway."""
        if self._gathered and not self._may_wait:
            self.put_all(group)
            return
        self._gathered += group
        self._may_wait = self._is_enough = True
        if self._later is None:
            self._later = asyncio.get_running_loop().call_later(LATER_S, self._go)
        if not self.has_room:
            self._go()

    def _go(self) -> None:
        self._may_wait = False
        if self._later is not None:
            self._later.cancel()
            self._later = None
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._flush())
        if not self.has_room:
            self._room.clear()

    @property
    def has_room(self) -> bool:
        return len(self._gathered) < GROUP_LIMIT

    async def room(self) -> None:
        """Wait while too much is waiting to be written."""
        await self._room.wait()

    async def write(self, settlement: PendingSave) -> bool:
        """Write it and say whether the claim still held."""
        answers = _Answers([settlement])
        self.put(settlement)
        [kept] = await answers.all_there
        if isinstance(kept, Exception):
            raise kept
        return kept

    async def write_all(self, group: Sequence[PendingSave]) -> list[Kept]:
        """Write them together, and say of each whether its claim still held."""
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
        if self._may_wait and self._gathered:
            self._go()
        while self._task is not None and not self._task.done():
            done, _ = await asyncio.wait((self._task,), timeout=within_s)
            if not done:
                await self._cut_off(self._task)

    async def _cut_off(self, task: asyncio.Task[None]) -> None:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        left, self._saving, self._gathered = [*self._saving, *self._gathered], [], []
        await self._give_up(left, StoreUnavailable("no answer from the store before the stop"))

    async def _flush(self) -> None:
        while self._gathered and not self._may_wait:
            if not self._is_enough and len(self._gathered) < ENOUGH_FOR_A_WRITE <= self._running():
                await asyncio.sleep(WAIT_FOR_OTHERS_S)
            self._is_enough = False
            group, self._gathered = self._gathered[:GROUP_LIMIT], self._gathered[GROUP_LIMIT:]
            self._under_way = len(group)
            self._saving = group
            try:
                await self._save(group)
                self._saving = []
            finally:
                self._under_way = 0
                if self.has_room:
                    self._room.set()

    async def _save(self, group: list[PendingSave]) -> None:
        delay_s = FIRST_RETRY_S
        unsure = False
        while group:
            try:
                kept = await self._save_once(group, unsure=unsure)
            except StoreError as error:
                if self._met is not None:
                    self._met(error)
                unsure = True  # the failed save may have been stored all the same
                group = await self._past_their_time(group, error)
                if group:
                    await asyncio.sleep(delay_s)
                    delay_s = min(delay_s * 2, LONGEST_RETRY_S)
            except Exception as error:
                # Not an error of the store: something in the group cannot be written at all. The
                # others are saved without it.
                log.exception("a group of %d outcomes cannot be written", len(group))
                if len(group) == 1:
                    await self._give_up(group, error)
                    return
                for settlement in group:
                    await self._save([settlement])
                return
            else:
                await self._finish(group, kept)
                return

    async def _save_once(self, group: list[PendingSave], *, unsure: bool) -> list[bool]:
        saved = await self._store.save(
            [settlement.change for settlement in group],
            [fact for settlement in group for fact in settlement.facts],
        )
        if not unsure or all(saved):
            return saved
        return [
            stored or await self._was_stored(settlement.change)
            for settlement, stored in zip(group, saved, strict=True)
        ]

    async def _finish(self, group: list[PendingSave], kept: Sequence[bool]) -> None:
        for settlement, stored in zip(group, kept, strict=True):
            settlement.kept = stored
        _tell(group)
        told = group
        if not all(kept):
            told = [settlement for settlement, stored in zip(group, kept, strict=True) if stored]
            await self._note_lost([s for s, stored in zip(group, kept, strict=True) if not stored])
        if told and self._tell is not None:
            self._tell(told)

    async def _note_lost(self, lost: Sequence[PendingSave]) -> None:
        self.lost_claims += len(lost)
        now_ms = self._clock.now_ms()
        late = [fact for save in lost for fact in late_outcome(save.change, now_ms)]
        if late:
            await self._note_late(late)

    async def _was_stored(self, change: Change) -> bool:
        """After an unanswered commit: whether exactly our change is stored."""
        stored = await self._store.get(change.delivery.id)
        if stored is None:
            return change.forget
        ours = replace(
            change.delivery,
            version=change.delivery.version + 1,
            open_children=stored.open_children,
            due_at_ms=stored.due_at_ms if stored.state == "waiting" else change.delivery.due_at_ms,
        )
        return stored == ours

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
            over += [s for s in self._gathered if s.needs_room]
            self._gathered = [s for s in self._gathered if not s.needs_room]
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
        _tell(group)


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
