"""Permits limit how much is done at once. They are granted in the order of the requests."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Iterable, Iterator

from msgspec import Struct

OWN_PERMITS = 8
# Answers come in small groups: a batch that wants many permits waits this long for more of them.
WAIT_FOR_MORE_S = 0.005


class Permits:
    """Permits that are taken and given back."""

    def __init__(self, size: int) -> None:
        self._free = size
        self._waiting: deque[_Turn] = deque()
        self._patience: asyncio.TimerHandle | None = None
        self._being_marked = 0

    def is_short_of(self, number: int) -> bool:
        """Whether one that wants so many has to wait."""
        return bool(self._waiting) or self._free < number

    async def take(self, most: int = 1, *, each: int = 1, worth: int = 1) -> int:
        """Take permits for up to `most` users; returns for how many, at least one.

        Each of them needs `each` permits. Fewer than `worth` are served only after a moment in
        which no more permits were given back.
        """
        if self._waiting or self._free < each * worth:
            await self._turn(each, each * worth)
        served = min(most, self._free // each)
        self._free -= served * each
        self._call_first()
        return served

    def give_back(self, number: int = 1) -> None:
        self._free += number
        self._call_first()

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
        turn = _Turn(least, wanted, asyncio.get_running_loop().create_future())
        self._waiting.append(turn)
        self._call_first()
        try:
            await turn.called
        except asyncio.CancelledError:
            self._waiting.remove(turn)
            self._call_first()
            raise
        # It was first in line until now, so the permits it was called for are still free.
        self._waiting.popleft()

    def _call_first(self) -> None:
        if not self._waiting or self._free < (first := self._waiting[0]).least:
            return
        if self._free >= first.wanted:
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


class _Common:
    """What is shared by several owners."""

    def __init__(self, size: int) -> None:
        self.free = size
        self.sharers: list[SharedPermits] = []


class SharedPermits:
    """Some reserved permits and a share of the common ones: no sharer can use up all."""

    def __init__(self, own: int, common: _Common) -> None:
        self._own = self._own_free = own
        self._common = common
        self._waiting: deque[asyncio.Future[None]] = deque()
        common.sharers.append(self)

    @property
    def free(self) -> int:
        return self._own_free + self._common.free

    async def take(self, most: int = 1) -> int:
        """Take all free permits, `most` at most, once there is one; returns how many."""
        if self._waiting or not self.free:
            await self._turn()
        taken = min(most, self.free)
        from_own = min(taken, self._own_free)
        self._own_free -= from_own
        self._common.free -= taken - from_own
        self._call_first()
        return taken

    def give_back(self, number: int = 1) -> None:
        to_own = min(number, self._own - self._own_free)
        self._own_free += to_own
        self._common.free += number - to_own
        self._call_first()
        if number > to_own:
            for sharer in self._common.sharers:
                sharer._call_first()

    async def _turn(self) -> None:
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            await turn
            while not self.free:  # another sharer was faster: wait again, still first in line
                self._waiting[0] = turn = asyncio.get_running_loop().create_future()
                await turn
        except asyncio.CancelledError:
            self._waiting.remove(turn)
            self._call_first()
            raise
        self._waiting.popleft()

    def _call_first(self) -> None:
        if self._waiting and self.free and not self._waiting[0].done():
            self._waiting[0].set_result(None)


class SendPermits:
    """`size` permits for all routes: a few reserved for each sending one, the rest common."""

    def __init__(self, size: int, sending: Iterable[str]) -> None:
        names = list(sending)
        own = min(OWN_PERMITS, size // max(len(names), 1))
        self._common = _Common(size - own * len(names))
        self._by_route = {name: SharedPermits(own, self._common) for name in names}

    def of(self, route: str) -> SharedPermits:
        permits = self._by_route.get(route)
        if permits is None:
            # Its plan has no sending stage, but one of its steps sends.
            permits = self._by_route[route] = SharedPermits(0, self._common)
        return permits
