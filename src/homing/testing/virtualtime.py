"""An asyncio event loop in which nobody waits: time jumps to the next timer.

Every callback belongs to a `Party`: a simulated process, or the world around it. Callbacks of
one party run in the order in which they became ready, as asyncio promises; which party goes
next, for how many callbacks, and which of two equal timers fires first, is drawn from the seed.
So every `await` is a point at which others may come in between, and the same seed gives the
same order every time. A party can be frozen, thawed and killed between any two callbacks.

There are no threads, sockets or signals in this loop; a call that needs them is refused.
"""

from __future__ import annotations

import asyncio
import contextvars
import heapq
import random
from bisect import insort
from collections.abc import Awaitable, Callable, Coroutine, Generator
from typing import Any, TypeVar, TypeVarTuple, cast

from homing.testing.parties import PARTY, Party, Step, Timer

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

# So many callbacks with no time passing are no progress, but a loop that waits for itself.
SPIN_LIMIT = 2_000_000
LONGEST_BURST = 6


class Stalled(Exception):
    """Nothing is ready and no timer is set: whoever still waits will wait for ever."""


class Spinning(Exception):
    """Callbacks follow each other without end and time does not move on."""


class VirtualTimeLoop(asyncio.AbstractEventLoop):
    """Runs coroutines in virtual time, in an order drawn from the seed."""

    def __init__(self, seed: int | str = 0) -> None:
        self._random = random.Random(f"order {seed}")  # noqa: S311 - repeatable, not secret
        self.now_s = 0.0
        self._timers: list[tuple[float, float, int, Timer]] = []
        self._timers_made = 0
        self._ready: list[Party] = []
        self.parties: list[Party] = []
        self._world = self.new_party("world")
        self._running = False
        self._stopping = False
        self._closed = False
        self._steps_since_tick = 0
        self.steps = 0
        self.complaints: list[dict[str, Any]] = []

    def new_party(self, name: str) -> Party:
        party = Party(name, len(self.parties))
        self.parties.append(party)
        return party

    def spawn(
        self, party: Party, coro: Coroutine[Any, Any, T], name: str | None = None
    ) -> asyncio.Task[T]:
        """Start a coroutine that belongs to `party`."""
        context = contextvars.Context()
        context.run(PARTY.set, party)
        return self.create_task(coro, name=name, context=context)

    def call_outside(self, delay_s: float, act: Callable[[], object]) -> None:
        """Something happens in the world, whoever of the parties is alive then."""
        self.call_later(delay_s, act, context=contextvars.Context())

    def freeze(self, party: Party) -> None:
        """Stop it where it is; its timers go on and wait for it."""
        party.is_frozen = True
        if party in self._ready:
            self._ready.remove(party)

    def thaw(self, party: Party) -> None:
        party.is_frozen = False
        if party.is_alive and party.queue:
            insort(self._ready, party)

    def kill(self, party: Party) -> None:
        """It ends here and now: no further callback, no `finally`, no farewell."""
        party.is_alive = False
        party.queue.clear()
        if party in self._ready:
            self._ready.remove(party)

    def run(self, coro: Coroutine[Any, Any, T]) -> T:
        """Run to the end, then close."""
        try:
            return self.run_until_complete(coro)
        finally:
            self.close()

    def run_until_complete(self, future: Awaitable[T] | Generator[Any, None, T]) -> T:
        task = asyncio.ensure_future(cast(Awaitable[T], future), loop=self)
        task.add_done_callback(lambda _: self.stop())
        self.run_forever()
        if not task.done():
            raise RuntimeError("the loop was stopped before its main task had ended")
        return task.result()

    def run_forever(self) -> None:
        if self._closed or self._running:
            raise RuntimeError("the loop is closed or running already")
        outer = asyncio._get_running_loop()
        self._running, self._stopping = True, False
        asyncio._set_running_loop(self)
        try:
            while not self._stopping:
                if self._ready:
                    self._run_some()
                else:
                    self._tick()
        finally:
            self._running = False
            asyncio._set_running_loop(outer)

    def _run_some(self) -> None:
        """A few callbacks of one party."""
        ready = self._ready
        draw = self._random.random()
        # One draw decides both: who is next, and for how long.
        place = draw * len(ready)
        party = ready[int(place)]
        burst = 1 + int((place % 1.0) * LONGEST_BURST)
        if party.fuse is not None:
            burst = min(burst, party.fuse)
            party.fuse -= burst
        queue = party.queue
        self._steps_since_tick += burst
        self.steps += burst
        for _ in range(burst):
            if not queue or party.is_frozen:
                break
            step = queue.popleft()
            if not step._cancelled:
                step._context.run(step._callback, *step._args)  # type: ignore[arg-type] # not cancelled, so it has one
        if not queue and party in ready:
            ready.remove(party)
        if party.fuse == 0:
            party.fuse = None
            if party.on_fuse is not None and party.is_alive:
                party.on_fuse()
        if self._steps_since_tick > SPIN_LIMIT:
            raise Spinning(f"{party.name} at {self.now_s:.3f} s: {list(queue)[:3]}")

    def _tick(self) -> None:
        """Time moves on to the next timer."""
        timers = self._timers
        while timers and timers[0][3]._cancelled:
            heapq.heappop(timers)
        if not timers:
            raise Stalled(f"at {self.now_s:.3f} s nothing is ready and no timer is set")
        self.now_s = max(self.now_s, timers[0][0])
        self._steps_since_tick = 0
        while timers and timers[0][0] <= self.now_s:
            timer = heapq.heappop(timers)[3]
            if not timer._cancelled:
                self._enqueue(timer)

    def _enqueue(self, step: Step | Timer) -> None:
        party = step._context.get(PARTY, self._world)
        if not party.is_alive:
            return
        queue = party.queue
        queue.append(step)
        if len(queue) == 1 and not party.is_frozen and party not in self._ready:
            # By number, not by arrival: an order that came out of a set must not matter.
            insort(self._ready, party)

    def time(self) -> float:
        return self.now_s

    def call_soon(
        self,
        callback: Callable[[*Ts], object],
        *args: *Ts,
        context: contextvars.Context | None = None,
    ) -> asyncio.Handle:
        step = Step(callback, args, contextvars.copy_context() if context is None else context)
        if not self._closed:
            self._enqueue(step)
        return step

    def call_later(
        self,
        delay: float,
        callback: Callable[[*Ts], object],
        *args: *Ts,
        context: contextvars.Context | None = None,
    ) -> asyncio.TimerHandle:
        return self.call_at(self.now_s + delay, callback, *args, context=context)

    def call_at(
        self,
        when: float,
        callback: Callable[[*Ts], object],
        *args: *Ts,
        context: contextvars.Context | None = None,
    ) -> asyncio.TimerHandle:
        context = contextvars.copy_context() if context is None else context
        timer = Timer(when, callback, args, context)
        if not self._closed:
            self._timers_made += 1
            entry = (when, self._random.random(), self._timers_made, timer)
            heapq.heappush(self._timers, entry)
        return timer

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self)

    def create_task(
        self,
        coro: Coroutine[Any, Any, T] | Generator[Any, None, T],
        *,
        name: str | None = None,
        context: contextvars.Context | None = None,
    ) -> asyncio.Task[T]:
        context = contextvars.copy_context() if context is None else context
        task: asyncio.Task[T] = asyncio.Task(coro, loop=self, name=name, context=context)
        context.get(PARTY, self._world).keep(task)
        return task

    def stop(self) -> None:
        self._stopping = True

    def is_running(self) -> bool:
        return self._running

    def is_closed(self) -> bool:
        return self._closed

    def close(self) -> None:
        """Let go of everybody, the dead included, without a sound."""
        self._closed = True
        self._timers.clear()
        for party in self.parties:
            party.queue.clear()
            for task in party.unfinished:
                _put_to_rest(task)
            party.forget()

    def get_debug(self) -> bool:
        return False

    def set_debug(self, enabled: bool) -> None:  # noqa: FBT001 - asyncio's own signature
        del enabled

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        self.complaints.append(context)

    async def shutdown_asyncgens(self) -> None:
        """There is nothing to shut down: generators end with their parties."""

    async def shutdown_default_executor(self) -> None:
        """There are no threads."""


def _put_to_rest(task: asyncio.Task[Any]) -> None:
    """Close its coroutine, and let it not complain that it was pending."""
    task._log_destroy_pending = False  # type: ignore[attr-defined] # asyncio's own switch for it
    coro = task.get_coro()
    for _ in range(3):
        try:
            if coro is not None:
                coro.close()
        except RuntimeError:
            continue  # it awaited something in a `finally`; close it again there
        except Exception:
            return
        else:
            return


def run(coro: Coroutine[Any, Any, T], seed: int | str = 0) -> T:
    """Run one coroutine in virtual time; an hour's sleep takes no time."""
    return new_loop(seed).run(coro)


def new_loop(seed: int | str = 0) -> VirtualTimeLoop:
    # The abstract methods left out are those of sockets, pipes, signals and threads.
    return VirtualTimeLoop(seed)  # type: ignore[abstract]
