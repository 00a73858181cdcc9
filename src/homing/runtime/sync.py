"""`homing.sync`: the same engine for callers without an event loop, over one background loop."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Coroutine, Iterable
from concurrent.futures import Future
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar, Unpack

from homing.domain.errors import IdempotencyConflict, NotAllowed, StoreUnavailable
from homing.domain.message import Message
from homing.engine.intake.request import Request, SubmitOptions, Ticket
from homing.runtime import forks
from homing.runtime.exit import AT_EXIT
from homing.runtime.loop import LoopThread, wait_for

if TYPE_CHECKING:
    from homing.runtime.app import Homing

T = TypeVar("T")
log = logging.getLogger("homing.sync")

START_AGAIN_AFTER_S = 0.1


class SyncHoming:
    """Starts with the first call that needs it, and stops cleanly when the program ends.

    In a forked child it is not started, whatever it was in the parent.
    """

    def __init__(self, homing: Homing) -> None:
        self._homing = homing
        self._forget_parent()
        forks.forget_in_child(self)

    def _forget_parent(self) -> None:
        """A forked child does not have the thread."""
        self._lock = threading.Lock()
        self._run: _Run | None = None
        self._is_entered = False
        AT_EXIT.discard(self)

    def start(self) -> None:
        """Start now instead of at the first call; no effect if it runs already."""
        self._refuse_event_loop()
        if self._homing.running_in is not None and self._run is None:
            raise NotAllowed("Homing is started already, in an event loop of your own")
        self._start()

    def stop(self) -> None:
        """Finish or release claimed work, then end the background loop."""
        self._refuse_event_loop()
        with self._lock:
            run, self._run = self._run, None
            AT_EXIT.discard(self)
            if run is not None:
                self._end(run)

    def __enter__(self) -> Self:
        if self._is_entered:
            raise NotAllowed("`with homing.sync` is entered already; its end would stop both")
        self.start()
        self._is_entered = True
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._is_entered = False
        self.stop()

    def submit(
        self,
        message: Message,
        *,
        key: str | None = None,
        route: str | None = None,
        within: object = None,
        **options: Unpack[SubmitOptions],
    ) -> Ticket:
        """As `Homing.submit`. With `within` the record is written in the calling thread, and
        nothing else is: if Homing is to work in this process, it starts in the background."""
        if within is not None:
            request = Request(message=message, key=key, **options)
            ticket = self._homing._submit_within(route, request, within)
            self._start_soon()
            return ticket
        return self.run(self._homing.submit(message, key=key, route=route, **options))

    def submit_many(
        self,
        messages: Iterable[Message | tuple[str, Message]],
        *,
        route: str | None = None,
        **options: Unpack[SubmitOptions],
    ) -> list[Ticket | IdempotencyConflict]:
        """As `Homing.submit_many`."""
        return self.run(self._homing.submit_many(messages, route=route, **options))

    def send(
        self,
        message: Message,
        *,
        key: str | None = None,
        route: str | None = None,
        wait: bool = True,
        **options: Unpack[SubmitOptions],
    ) -> Ticket:
        """As `Homing.send`."""
        return self.run(self._homing.send(message, key=key, route=route, wait=wait, **options))

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Any other call, e.g. `homing.sync.run(homing.ops.show(id))`."""
        try:
            self._refuse_event_loop()
            schedule = self._scheduler()
        except BaseException:
            coroutine.close()
            raise
        return wait_for(schedule(coroutine))

    def _scheduler(self) -> Callable[[Coroutine[Any, Any, T]], Future[T]]:
        """Of the background loop, or of the loop of `async with homing` in another thread."""
        running_in = self._homing.running_in
        if self._run is None and running_in is not None:
            return lambda coroutine: asyncio.run_coroutine_threadsafe(coroutine, running_in)
        return self._start().thread.start

    def _start(self) -> _Run:
        with self._lock:
            run = self._run or self._new_run(keep_trying=False)
        try:
            wait_for(run.started)
        except BaseException:
            with self._lock:
                if self._run is run and not run.keep_trying:
                    self._run = None
                    self._end(run)
            raise
        return run

    def _start_soon(self) -> None:
        """The caller holds the file's write lock, which the start may have to wait for."""
        # Without the lock first: a handler of ours may submit while a stop, which has it, waits.
        if not self._homing.has_worker or self._is_started or AT_EXIT.has_begun:
            return
        with self._lock:
            if not self._is_started:
                self._new_run(keep_trying=True)

    @property
    def _is_started(self) -> bool:
        return self._run is not None or self._homing.running_in is not None

    def _new_run(self, *, keep_trying: bool) -> _Run:
        if AT_EXIT.has_begun:
            raise NotAllowed("the program is ending: homing.sync does not start any more")
        run = self._run = _Run(keep_trying=keep_trying)
        AT_EXIT.add(self)
        run.thread.start(self._start_in(run))
        return run

    async def _start_in(self, run: _Run) -> None:
        try:
            while True:
                try:
                    await self._homing.start()
                except StoreUnavailable as error:
                    if not run.keep_trying:
                        raise
                    failed, run.started = run.started, Future()
                    failed.set_exception(error)
                    await asyncio.sleep(START_AGAIN_AFTER_S)
                else:
                    run.started.set_result(None)
                    return
        except asyncio.CancelledError:
            run.started.cancel()
            raise
        except BaseException as error:
            if run.keep_trying:
                log.exception("Homing did not start in the background")
            run.keep_trying = False
            run.started.set_exception(error)

    def _end(self, run: _Run) -> None:
        try:
            if self._homing.running_in is run.thread.loop:
                wait_for(run.thread.start(self._homing.stop()))
        finally:
            run.thread.stop()

    def _refuse_event_loop(self) -> None:
        """A call that waits in the loop that must answer it would wait for ever."""
        run = self._run
        own = self._homing.running_in if run is None else run.thread.loop
        if own is not None and asyncio._get_running_loop() is own:
            raise NotAllowed(
                "homing.sync is for code without an event loop; this is Homing's own loop:"
                " use `await homing.submit(…)` and the like"
            )


class _Run:
    """From a start to its stop. `started` is the current try, if the start is repeated."""

    def __init__(self, *, keep_trying: bool) -> None:
        self.keep_trying = keep_trying
        self.started: Future[None] = Future()
        self.thread = LoopThread("homing")
