"""An asyncio event loop in which nobody waits: time jumps to the next timer.

Every callback belongs to a `Actor`: a simulated process, or the world around it. Callbacks of
one actor run in the order in which they became ready, as asyncio promises; which actor goes
next, for how many callbacks, and which of two equal timers fires first, is drawn from the seed.
So every `await` is a point at which others may come in between, and the same seed gives the
same order every time. A actor can be frozen, thawed and killed between any two callbacks.

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

from tests.simulation.actors import ACTOR, Actor, Step, Timer

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
        self._random = random.Random(f"order {seed}")
        self.now_s = 0.0
        self._timers: list[tuple[float, float, int, Timer]] = []
        self._timers_made = 0
        self._ready: list[Actor] = []
        self.actors: list[Actor] = []
        self._world = self.new_actor("world")
        self._running = False
        self._stopping = False
        self._closed = False
        self._steps_since_tick = 0
        self.steps = 0
        self.complaints: list[dict[str, Any]] = []

    def new_actor(self, name: str) -> Actor:
        actor = Actor(name, len(self.actors))
        self.actors.append(actor)
        return actor

    def spawn(
        self, actor: Actor, coro: Coroutine[Any, Any, T], name: str | None = None
    ) -> asyncio.Task[T]:
        """Start a coroutine that belongs to `actor`."""
        context = contextvars.Context()
        context.run(ACTOR.set, actor)
        return self.create_task(coro, name=name, context=context)

    def call_outside(self, delay_s: float, act: Callable[[], object]) -> None:
        """Something happens in the world, whoever of the actors is alive then."""
        self.call_later(delay_s, act, context=contextvars.Context())

    def freeze(self, actor: Actor) -> None:
        """Stop it where it is; its timers go on and wait for it."""
        actor.is_frozen = True
        if actor in self._ready:
            self._ready.remove(actor)

    def thaw(self, actor: Actor) -> None:
        actor.is_frozen = False
        if actor.is_alive and actor.queue:
            insort(self._ready, actor)

    def kill(self, actor: Actor) -> None:
        """It ends here and now: no further callback, no `finally`, no farewell."""
        actor.is_alive = False
        actor.queue.clear()
        if actor in self._ready:
            self._ready.remove(actor)

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
        """A few callbacks of one actor."""
        ready = self._ready
        draw = self._random.random()
        # One draw decides both: who is next, and for how long.
        place = draw * len(ready)
        actor = ready[int(place)]
        burst = 1 + int((place % 1.0) * LONGEST_BURST)
        if actor.countdown is not None:
            burst = min(burst, actor.countdown)
            actor.countdown -= burst
        queue = actor.queue
        self._steps_since_tick += burst
        self.steps += burst
        for _ in range(burst):
            if not queue or actor.is_frozen:
                break
            step = queue.popleft()
            if not step._cancelled:
                try:
                    step._context.run(step._callback, *step._args)  # type: ignore[arg-type] # not cancelled, so it has one
                except Exception as error:
                    actor.broken_callbacks.append(error)
        if not queue and actor in ready:
            ready.remove(actor)
        if actor.countdown == 0:
            actor.countdown = None
            if actor.on_countdown is not None and actor.is_alive:
                actor.on_countdown()
        if self._steps_since_tick > SPIN_LIMIT:
            raise Spinning(f"{actor.name} at {self.now_s:.3f} s: {list(queue)[:3]}")

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
        actor = step._context.get(ACTOR, self._world)
        if not actor.is_alive:
            return
        queue = actor.queue
        queue.append(step)
        if len(queue) == 1 and not actor.is_frozen and actor not in self._ready:
            # By number, not by arrival: an order that came out of a set must not matter.
            insort(self._ready, actor)

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
        context.get(ACTOR, self._world).keep(task)
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
        for actor in self.actors:
            actor.queue.clear()
            for task in actor.unfinished:
                _close_task(task)
            actor.forget()

    def get_debug(self) -> bool:
        return False

    def set_debug(self, enabled: bool) -> None:
        del enabled

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        self.complaints.append(context)

    async def shutdown_asyncgens(self) -> None:
        """There is nothing to shut down: generators end with their actors."""

    async def shutdown_default_executor(self) -> None:
        """There are no threads."""


def _close_task(task: asyncio.Task[Any]) -> None:
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
