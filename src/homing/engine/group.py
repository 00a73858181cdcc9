"""A group of sends on its way: prepared, marked by one write, handed over, answered one by one."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from functools import partial
from typing import Protocol

from msgspec.structs import replace

from homing.domain.errors import StoreError
from homing.domain.failure import TIMED_OUT, Failure
from homing.engine.attempt import AttemptRunner
from homing.engine.claimed_work import ClaimedWork
from homing.engine.steps import Packed
from homing.ports import Accepted, GroupProvider, GroupSend


class Escort(Protocol):
    """Whoever has sent the group off is told what becomes of each."""

    def marks_follow(self) -> None:
        """Marks are written next: what is answered by now is handed over for writing first."""

    def has_begun(self, held: ClaimedWork) -> None:
        """Its mark is being written."""

    def finds_no_room(self, group: Sequence[ClaimedWork]) -> None:
        """Nothing was done about them; they come again."""

    def is_answered(self, held: ClaimedWork, answer: Accepted | Failure) -> None: ...

    def is_dropped(self, held: ClaimedWork) -> None:
        """Not sent, and nothing to write: it is somebody else's, or its lease ends by itself."""


class Group:
    """Sends under one plan, so with one time limit. Each ends by one word to the escort."""

    def __init__(
        self,
        packed: dict[ClaimedWork, Packed],
        timeout_s: float,
        attempts: AttemptRunner,
        escort: Escort,
    ) -> None:
        self._unsent = packed
        self._timeout_s = timeout_s
        self._attempts = attempts
        self._escort = escort
        self._ready: dict[ClaimedWork, GroupSend] = {}
        self._under_way: dict[ClaimedWork, GroupSend] = {}
        self._timer: asyncio.TimerHandle | None = None

    @property
    def is_over(self) -> bool:
        """All that was handed over is answered."""
        return not self._under_way

    async def send(self, provider: GroupProvider) -> None:
        """Returns when all are handed over; the answers come later."""
        deadline_s = asyncio.get_running_loop().time() + self._timeout_s
        try:
            async with asyncio.timeout_at(deadline_s):
                await self._prepare(provider)
                marked = await self._mark() if self._ready else []
        except TimeoutError:
            await self._abandon(list(self._unsent), self._no_answer())
        except StoreError:
            await self._abandon(list(self._unsent))
        except asyncio.CancelledError:
            await self._abandon(list(self._unsent))
            raise
        except Exception as error:
            fault = _fault(next(iter(self._unsent)), error)
            await self._abandon(list(self._unsent), fault)
        else:
            late = self._start(marked, deadline_s)
            await self._abandon([*self._unsent, *late])

    def withdraw(self) -> None:
        """Nobody waits for the answers any more."""
        for held, send in list(self._under_way.items()):
            send.withdraw()
            self._end(held)
            self._escort.is_dropped(held)

    async def _prepare(self, provider: GroupProvider) -> None:
        answers = await provider.prepare_some([each.envelope for each in self._unsent.values()])
        self._come_again(list(self._unsent)[len(answers) :])
        for held, answer in zip(list(self._unsent), answers, strict=True):
            if isinstance(answer, Failure):
                del self._unsent[held]
                self._escort.is_answered(held, answer)
            else:
                self._ready[held] = answer

    async def _mark(self) -> list[ClaimedWork]:
        """Write the durable marks; those who have them."""
        attempts = self._attempts
        await attempts.process.refresh_if_stale()
        self._escort.marks_follow()
        await self._take_permits()
        asked_at_s = attempts.process.clock.steady_s()
        markings = [held.marking(self._unsent[held].to_store) for held in self._ready]
        for held in self._ready:
            self._escort.has_begun(held)
        kept = await attempts.process.saves.write_all(markings)
        marked: list[ClaimedWork] = []
        for held, marking, is_kept in zip(self._ready, markings, kept, strict=True):
            if is_kept is True:
                del self._unsent[held]
                held.marked(marking.change, asked_at_s)
                marked.append(held)
        return marked

    async def _take_permits(self) -> None:
        """After the places at the provider, as everybody does: else two could block each other."""
        group = list(self._ready)
        permits = await self._attempts.process.unsaved_sends.take(len(group))
        for held in group[:permits]:
            held.permit = True
        without = {held: self._ready.pop(held) for held in group[permits:]}
        self._come_again(list(without))
        for send in without.values():
            await send.abandon()

    def _come_again(self, group: Sequence[ClaimedWork]) -> None:
        for held in group:
            del self._unsent[held]
        self._escort.finds_no_room(group)

    def _start(self, marked: Sequence[ClaimedWork], deadline_s: float) -> list[ClaimedWork]:
        """Hand them over, but for those whose lease has become too short for it."""
        late: list[ClaimedWork] = []
        for held in marked:
            if held.may_commit:
                self._under_way[held] = self._ready.pop(held)
            else:
                late.append(held)
        if self._under_way:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_at(deadline_s, self._time_is_over)
        for held, send in list(self._under_way.items()):
            try:
                send.start(partial(self._told, held))
            except Exception as error:
                self._told(held, replace(_fault(held, error), maybe_sent=True))
        return late

    def _told(self, held: ClaimedWork, answer: Accepted | Failure) -> None:
        if held in self._under_way:  # else its time was over
            self._end(held)
            self._escort.is_answered(held, answer)

    def _time_is_over(self) -> None:
        for held, send in list(self._under_way.items()):
            send.withdraw()
            self._told(held, replace(self._no_answer(), maybe_sent=True))

    def _end(self, held: ClaimedWork) -> None:
        del self._under_way[held]
        if not self._under_way and self._timer is not None:
            self._timer.cancel()

    async def _abandon(self, group: Sequence[ClaimedWork], answer: Failure | None = None) -> None:
        """Provably not sent."""
        for held in group:
            send = self._ready.pop(held, None)
            if send is not None:
                with contextlib.suppress(Exception):
                    await send.abandon()
            if answer is None:
                self._escort.is_dropped(held)
            else:
                self._escort.is_answered(held, answer)

    def _no_answer(self) -> Failure:
        return Failure(TIMED_OUT, detail=f"no answer within {self._timeout_s:g} s")


def _fault(held: ClaimedWork, error: Exception) -> Failure:
    stage = held.route.plan_of(held.delivery).stage(held.delivery.stage)
    return held.route.judge(error, stage)
