"""Permits limit how much is done at once.

An attempt takes them in this order, and so never waits for one that is held by another which
waits for its own:

1. suspect permits of the process, by work that may have killed an earlier holder;
2. attempt permits of the route, by a batch before it starts;
3. places at the provider, while it prepares sends (these are the provider's own);
4. send permits of the process, before the durable marks.

`give_permits_back` returns what works hold.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from homing.engine.route import Route

if TYPE_CHECKING:
    from homing.engine.work.claimed_work import ClaimedWork

# How many accepted sends may wait for their save: one kill can repeat at most this many.
MAX_UNSAVED_SENDS = 64
# Of these, so many are reserved for each sending route.
OWN_PERMITS = 8
SUSPECT_PERMITS = 16
# The share of a route's attempts that a batch of sends waits for: a few slow sends delay no batch.
SHARE_WORTH_WAITING = 7 / 8
# Answers come in small groups: a batch that wants many permits waits this long for more of them.
WAIT_FOR_MORE_S = 0.005


class CommonPermits:
    """Permits that several sharers take when their own are used up."""

    def __init__(self, size: int) -> None:
        self.free = size
        self.sharers: list[Permits] = []


class Permits:
    """Permits of one owner, granted in the order of the requests.

    With `common` ones beside them, no sharer can use up what is reserved for another.
    """

    def __init__(self, own: int, common: CommonPermits | None = None) -> None:
        self._own = self._own_free = own
        self._common = common or CommonPermits(0)
        self._common.sharers.append(self)
        self._waiting: deque[_Turn] = deque()
        self._patience: asyncio.TimerHandle | None = None
        self._being_marked = 0

    @property
    def free(self) -> int:
        return self._own_free + self._common.free

    def is_short_of(self, number: int) -> bool:
        """Whether one that wants so many has to wait."""
        return bool(self._waiting) or self.free < number

    async def take(self, most: int = 1, *, each: int = 1, worth: int = 1) -> int:
        """Take permits for up to `most` users; returns for how many, at least one.

        Each of them needs `each` permits. Fewer than `worth` are served only after a moment in
        which no more permits were given back.
        """
        if self.is_short_of(each * worth):
            await self._turn(each, each * worth)
        served = min(most, self.free // each)
        from_own = min(served * each, self._own_free)
        self._own_free -= from_own
        self._common.free -= served * each - from_own
        self._call_first()
        return served

    def give_back(self, number: int = 1) -> None:
        to_own = min(number, self._own - self._own_free)
        self._own_free += to_own
        self._common.free += number - to_own
        self._call_first()
        if number > to_own:
            for sharer in self._common.sharers:
                sharer._call_first()

    @contextlib.contextmanager
    def being_marked(self) -> Iterator[None]:
        """While marks of the holders are written, those who want more permits keep waiting.

        A process writes one group of marks after the other, so a few sends that begin meanwhile
        would gain nothing, and would stay a small group.
        """
        self._being_marked += 1
        try:
            yield
        except GeneratorExit:
            raise  # the event loop has ended with all that waited
        except BaseException:
            self._are_marked()
            raise
        self._are_marked()

    def _are_marked(self) -> None:
        self._being_marked -= 1
        self._call_first()

    async def _turn(self, least: int, wanted: int) -> None:
        loop = asyncio.get_running_loop()
        turn = _Turn(least, wanted, loop.create_future())
        self._waiting.append(turn)
        self._call_first()
        try:
            await turn.called
            while self.free < least:  # another sharer was faster: wait again, still first in line
                turn.called = loop.create_future()
                await turn.called
        except asyncio.CancelledError:
            self._waiting.remove(turn)
            self._call_first()
            raise
        self._waiting.popleft()

    def _call_first(self) -> None:
        if not self._waiting or self.free < (first := self._waiting[0]).least:
            return
        if self.free >= first.wanted:
            if not first.called.done():
                first.called.set_result(None)
        elif self._patience is None and not self._being_marked:
            loop = asyncio.get_running_loop()
            self._patience = loop.call_later(WAIT_FOR_MORE_S, self._take_what_there_is)

    def _take_what_there_is(self) -> None:
        self._patience = None
        if self._waiting and not self._being_marked:
            self._waiting[0].wanted = self._waiting[0].least
            self._call_first()


class _Turn(Struct, eq=False):
    """One waiting user: how many permits it needs at least, and how many it prefers."""

    least: int
    wanted: int
    called: asyncio.Future[None]


class RoutePermits(Struct, eq=False):
    """The permits for attempts of one route. Its own are `attempts`."""

    suspects: Permits
    attempts: Permits
    sends: Permits
    # So many attempts are worth waiting for: sends that begin together share writes.
    worth: int

    def must_wait(self, works: Sequence[ClaimedWork]) -> bool:
        """Whether `take_for_sends` waits."""
        return self.attempts.is_short_of(min(len(works), self.worth))

    async def take_for_sends(self, works: Sequence[ClaimedWork]) -> int:
        """For the first ones of a batch of sends; returns how many may start."""
        taken = await self.attempts.take(len(works), worth=min(len(works), self.worth))
        for work in works[:taken]:
            work.has_attempt_permit = True
        return taken

    async def take_for_marks(self, works: Sequence[ClaimedWork]) -> int:
        """For the first ones of prepared sends; returns how many may be marked."""
        taken = await self.sends.take(len(works))
        for work in works[:taken]:
            work.has_send_permit = True
        return taken


def give_permits_back(works: Sequence[ClaimedWork]) -> None:
    """Of one route: their outcomes are handed over for writing, or nothing was sent.

    Suspects keep their suspect permits until their attempts are over.
    """
    attempts = sends = suspects = 0
    for work in works:
        if work.has_attempt_permit:
            work.has_attempt_permit = False
            attempts += 1
        if work.has_send_permit:
            work.has_send_permit = False
            sends += 1
        if work.suspect_permits and work.is_over:
            suspects += work.suspect_permits
            work.suspect_permits = 0
    if attempts or sends or suspects:
        permits = works[0].permits
        permits.sends.give_back(sends)
        permits.attempts.give_back(attempts)
        permits.suspects.give_back(suspects)


class ProcessPermits:
    """The permits of all routes of a process, which share those for suspects and for sends."""

    def __init__(self, routes: Iterable[Route]) -> None:
        self._sending = {route.name for route in routes if _sends(route)}
        self._reserved = min(OWN_PERMITS, MAX_UNSAVED_SENDS // max(len(self._sending), 1))
        self._unsaved = CommonPermits(MAX_UNSAVED_SENDS - self._reserved * len(self._sending))
        # A crash takes down the whole process, so all routes share these.
        self._suspects = Permits(SUSPECT_PERMITS)
        self._by_route: dict[str, RoutePermits] = {}

    def of(self, route: Route) -> RoutePermits:
        permits = self._by_route.get(route.name)
        if permits is None:
            # A plan without a sending stage may have a step that sends.
            reserved = self._reserved if route.name in self._sending else 0
            permits = self._by_route[route.name] = RoutePermits(
                self._suspects,
                Permits(route.most_at_once),
                Permits(reserved, self._unsaved),
                worth=max(int(route.most_at_once * SHARE_WORTH_WAITING), 1),
            )
        return permits


def _sends(route: Route) -> bool:
    return any(stage.sends for plan in route.all_plans for stage in plan.stages)
