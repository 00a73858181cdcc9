"""The way of a send: packed, prepared, marked by one durable write, sent, settled. For n >= 1.

Each member of a batch is packed, answered and settled by itself: what goes wrong with one of them
harms no other. A send that times out before the durable mark was not sent. After it, the
provider says whether anything left this machine: if so, the outcome is unknown.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from functools import partial
from typing import cast

from homing.domain.errors import StoreFull
from homing.domain.failure import Failure
from homing.engine.commit.settlement import Kept
from homing.engine.commit.settling import Ended, hand_over, settle
from homing.engine.work.claimed_work import ClaimedWork, in_time, put_back, release
from homing.engine.work.doubt import late_receipt
from homing.engine.work.one_at_a_time import SingleSend, TooLate
from homing.engine.work.outcomes import (
    conclude,
    conclude_done,
    conclude_fault,
    conclude_found,
    timed_out,
)
from homing.engine.work.providers import Providers
from homing.engine.work.starting import leave_out_what_may_not_start
from homing.engine.work.steps import Packed, SendStep, outcome_of
from homing.ports import Accepted, Done, GroupProvider, GroupSend, Outcome

# How long an answer waits for others, so that one write settles them all.
SETTLE_WITHIN_S = 0.01
# Composing more than this takes milliseconds and is done in a thread, not in the event loop.
LARGE_PAYLOAD = 256 * 1024
# A union that is written where it is asked for is made again for every send.
_NOT_PREPARED = (Failure, Exception)
_FAILED_SEND = (Exception, asyncio.CancelledError)


class SendBatch:
    """Claimed work of one sending stage, under one plan and so with one time limit.

    What is put back leaves the list.
    """

    def __init__(
        self, step: SendStep, works: list[ClaimedWork], providers: Providers, *, wait: bool
    ) -> None:
        first = works[0]
        self._step = step
        self._works = works
        self._providers = providers
        self._wait = wait
        self._stage = first.stage
        self._owner = first.owner
        self._process = first.process
        self._permits = first.permits
        self._loop = asyncio.get_running_loop()
        self._deadline_s = self._loop.time() + self._stage.timeout_s
        # Not sent, and not settled either.
        self._unsent: dict[ClaimedWork, Packed] = {}
        self._prepared: dict[ClaimedWork, GroupSend] = {}
        self._under_way: dict[ClaimedWork, GroupSend] = {}
        self._accepted: list[tuple[ClaimedWork, Done]] = []
        self._ended: list[Ended] = []
        self._news: asyncio.Future[None] | None = None
        # An exception that ends the process, raised by a send.
        self._exit: BaseException | None = None
        self._deadline: asyncio.TimerHandle | None = None
        self._settle_timer: asyncio.TimerHandle | None = None

    async def deliver(self) -> None:
        """Returns when each is settled, put back, or lost to another process."""
        try:
            await self._deliver()
        except (Exception, asyncio.CancelledError):
            await self._clean_up()
            raise

    async def _deliver(self) -> None:
        starting = await leave_out_what_may_not_start(self._works, wait=self._wait)
        try:
            async with asyncio.timeout_at(self._deadline_s):
                await self._pack(starting)
                await self._prepare()
                await self._take_permits()
        except TimeoutError:
            await self._none_is_sent()
        await self._start(await self._mark())
        while ended := await self._answers():
            await self._settle(ended)

    async def _pack(self, starting: Sequence[ClaimedWork]) -> None:
        """The bytes of each, or an outcome of its own."""
        step = self._step
        for work in starting:
            ahead, work.packed = work.packed, None
            try:
                if ahead is not None and ahead[0] is work.delivery:
                    made: Packed | Outcome = ahead[1]
                elif _is_packed_quickly(step, work):
                    made = step.pack(work.delivery, work.content)
                else:
                    made = await self._pack_slowly(work)
            except Exception as error:
                self._end(work, error)
                continue
            if isinstance(made, Packed):
                self._unsent[work] = made
            else:
                self._end(work, made)

    async def _pack_slowly(self, work: ClaimedWork) -> Packed | Outcome:
        step = self._step
        if step.unless is not None and (outcome := await step.unless(work)) is not None:
            return outcome
        if work.size > LARGE_PAYLOAD or (step.slow is not None and step.slow(work.delivery)):
            return await asyncio.to_thread(step.pack, work.delivery, work.content)
        return step.pack(work.delivery, work.content)

    async def _prepare(self) -> None:
        """Prepare as many as there is room for, up to the byte that may send."""
        works = list(self._unsent)
        if not works:
            return
        provider = self._step.group_provider
        try:
            envelopes = [packed.envelope for packed in self._unsent.values()]
            answers: Sequence[object] = await provider.prepare_some(envelopes)
        except TimeoutError:
            raise
        except Exception as error:
            if len(works) == 1:
                self._end(works[0], error)
                return
            # One of them may be the reason: each is prepared by itself.
            answers = [await self._prepare_one(provider, work) for work in works]
        for work, answer in zip(works, answers, strict=False):
            self._take_prepared(work, answer)
        if answers:
            self._put_back(works[len(answers) :])
        else:
            for work in works:
                self._take_prepared(work, None)

    async def _prepare_one(self, provider: GroupProvider, work: ClaimedWork) -> object:
        try:
            [answer] = await provider.prepare_some([self._unsent[work].envelope])
        except TimeoutError:
            raise
        except Exception as error:
            return error
        return answer

    def _take_prepared(self, work: ClaimedWork, answer: object) -> None:
        if isinstance(answer, _NOT_PREPARED):
            self._providers.learn(self._step.provider, answer)
            self._end(work, answer)
        elif hasattr(answer, "start"):  # a check of the whole Protocol costs 40 calls
            self._prepared[work] = cast(GroupSend, answer)
        else:
            detail = f"the provider prepared {type(answer).__name__}, not a send or a Failure"
            self._end(work, Failure("provider_error", detail=detail))

    async def _mark(self) -> list[ClaimedWork]:
        """Write the durable marks. Returns the sends that have one.

        The time limit does not cover this: whether a mark is stored must be known.
        """
        if not self._prepared:
            return []
        began_s = self._loop.time()
        await self._process.refresh_if_stale()
        first = next(iter(self._prepared))
        pausing = self._process.pausing
        is_paused = pausing.holds_back(first.route.name, is_probe=first.is_probe)
        if first.owner is not None and is_paused:
            await self._put_back_prepared(list(self._prepared))  # paused since they were claimed
            return []
        for work in [work for work in self._prepared if work.delivery.maybe_sent_at_ms is not None]:
            # An earlier owner may have stored the outcome since the first check.
            receipt = await late_receipt(self._process, work.delivery)
            if receipt is not None:
                await self._abandon([work])
                self._ended.append((work, conclude_found(work, receipt)))
        clock = self._process.clock
        asked_at_s, now_ms = clock.steady_s(), clock.now_ms()
        marking: list[Ended] = []
        for work in list(self._prepared):
            try:
                frozen = self._unsent[work].to_store
                mark = work.marking(frozen, now_ms, asked_at_s)
                mark.needs_room = self._owner is None
                marking.append((work, mark))
            except Exception as error:
                await self._abandon([work])
                self._ended.append((work, conclude_fault(work, error)))
        if self._owner is not None:
            self._owner.began([work for work, _ in marking])
        with _being_marked(first):
            kept = await self._process.saves.write_all([mark for _, mark in marking])
        marked: list[ClaimedWork] = []
        for (work, mark), is_kept in zip(marking, kept, strict=True):
            if is_kept is True:
                work.marked(mark.change, asked_at_s)
                marked.append(work)
            else:
                self._not_marked(work, is_kept)
        self._deadline_s += self._loop.time() - began_s
        return marked

    def _not_marked(self, work: ClaimedWork, why: Kept) -> None:
        """So not sent. What the store had no room for is due again once it has."""
        work.lost = True
        if isinstance(why, StoreFull):
            release(work)

    async def _take_permits(self) -> None:
        """After the places at the provider, in every sender: two orders could deadlock."""
        works = list(self._prepared)
        if not works:
            return
        taken = await self._permits.take_for_marks(works)
        await self._put_back_prepared(works[taken:])

    async def _put_back_prepared(self, works: Sequence[ClaimedWork]) -> None:
        sends = [self._prepared.pop(work) for work in works]
        self._put_back(works)
        for send in sends:
            await _abandon(send)

    async def _none_is_sent(self) -> None:
        unsent = [work for work in self._unsent if not work.lost]
        await self._abandon(list(self._prepared))
        for work in unsent:
            self._end(work, timed_out(self._stage, maybe_sent=False))

    async def _start(self, marked: Sequence[ClaimedWork]) -> None:
        """Hand them to the provider, but for those whose lease has become too short for it.

        Nothing is awaited between that check and the send: a pause in between would outdate it.
        """
        for work in in_time(marked):
            del self._unsent[work]
            self._under_way[work] = self._prepared.pop(work)
        if self._under_way:
            self._deadline = self._loop.call_at(self._deadline_s, self._time_is_over)
        for work, send in list(self._under_way.items()):
            if isinstance(send, SingleSend):
                send.may_commit = partial(_may_commit, work)
            try:
                send.start(partial(self._told, work))
            except Exception as error:
                self._told(work, error)
        await self._abandon(list(self._prepared))

    def _told(self, work: ClaimedWork, answer: Accepted | Failure | BaseException) -> None:
        if self._under_way.pop(work, None) is None:
            return  # its time was over, or it was told before
        if answer.__class__ is Accepted and not answer.refused:
            self._providers.learn(self._step.provider, answer)
            self._accepted.append((work, Done(receipt=answer.receipt)))
        elif isinstance(answer, TooLate):
            """Marked and not sent: its next owner looks into it."""
        elif isinstance(answer, _FAILED_SEND):
            self._end(work, answer, maybe_sent=True)
        elif isinstance(answer, BaseException):
            self._exit = answer
            self._wake()
        else:
            self._providers.learn(self._step.provider, answer)
            self._end(work, outcome_of(answer))
        if not self._under_way:
            self._wake()
            if self._deadline is not None:
                self._deadline.cancel()
        elif self._settle_timer is None:
            self._settle_timer = self._loop.call_later(SETTLE_WITHIN_S, self._wake)

    def _time_is_over(self) -> None:
        for work, send in list(self._under_way.items()):
            maybe_sent = True
            with contextlib.suppress(Exception):
                maybe_sent = send.withdraw() is not False
            self._told(work, timed_out(self._stage, maybe_sent=maybe_sent))

    async def _answers(self) -> list[Ended]:
        """What is answered by now: all, or those of one moment, so that a slow one delays none.

        Empty only once nothing is under way any more.
        """
        while self._under_way and not (self._accepted or self._ended) and self._exit is None:
            self._news = self._loop.create_future()
            await self._news
        if self._exit is not None:
            raise self._exit
        return self._take_ended()

    def _take_ended(self) -> list[Ended]:
        """Those accepted get one time: outcomes that are alike are written by one statement."""
        (accepted, self._accepted), (ended, self._ended) = (self._accepted, []), (self._ended, [])
        now_ms = self._process.clock.now_ms()
        ended += [
            (work, conclude_done(work, done, now_ms, maybe_sent=True)) for work, done in accepted
        ]
        return ended

    def _wake(self) -> None:
        if self._settle_timer is not None:
            self._settle_timer.cancel()
            self._settle_timer = None
        if self._news is not None and not self._news.done():
            self._news.set_result(None)

    async def _settle(self, ended: Sequence[Ended]) -> None:
        if self._wait:
            await settle(ended, wait=True)
            return
        # The marks of the next batch can share the write of these outcomes.
        has_more = self._owner is not None and self._owner.has_more
        hand_over(ended, may_wait=has_more and not self._under_way)

    def _end(
        self, work: ClaimedWork, outcome: Outcome | BaseException, *, maybe_sent: bool = False
    ) -> None:
        self._unsent.pop(work, None)
        self._ended.append((work, conclude(work, outcome, maybe_sent=maybe_sent)))

    def _put_back(self, works: Sequence[ClaimedWork]) -> None:
        for work in works:
            del self._unsent[work]
        put_back(works, self._works)

    async def _abandon(self, works: Sequence[ClaimedWork]) -> None:
        for work in works:
            self._unsent.pop(work, None)
            await _abandon(self._prepared.pop(work))

    async def _clean_up(self) -> None:
        """After a stop: settle what is answered, leave what is marked to its next owner."""
        for timer in (self._deadline, self._settle_timer):
            if timer is not None:
                timer.cancel()
        under_way, self._under_way = self._under_way, {}
        for send in under_way.values():
            with contextlib.suppress(Exception):
                send.withdraw()
        if ended := self._take_ended():
            hand_over(ended)
        await self._abandon(list(self._prepared))


def pack_ahead(works: Sequence[ClaimedWork]) -> None:
    """Make the bytes of what will be sent soon. What fails here is tried again in its batch."""
    step = works[0].route.steps.get(works[0].stage.name)
    if not isinstance(step, SendStep):
        return
    for work in works:
        if work.packed is None and _is_packed_quickly(step, work):
            with contextlib.suppress(Exception):
                work.packed = work.delivery, step.pack(work.delivery, work.content)


def _is_packed_quickly(step: SendStep, work: ClaimedWork) -> bool:
    return step.unless is None and step.slow is None and work.size <= LARGE_PAYLOAD


def _being_marked(work: ClaimedWork) -> contextlib.AbstractContextManager[None]:
    if not work.has_attempt_permit:
        return contextlib.nullcontext()
    return work.permits.attempts.being_marked()


def _may_commit(work: ClaimedWork) -> bool:
    return bool(in_time((work,)))


async def _abandon(send: GroupSend) -> None:
    with contextlib.suppress(Exception):
        await send.abandon()
