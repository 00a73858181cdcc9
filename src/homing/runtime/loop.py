"""An event loop in a thread of its own, for callers that have none."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from concurrent.futures import CancelledError, Future
from typing import Any, TypeVar

from homing.domain.errors import NotAllowed, StoreOutcomeUnknown

T = TypeVar("T")


class LoopThread:
    """Runs until `stop`, which cancels what is still running in it."""

    def __init__(self, name: str) -> None:
        self._made: Future[asyncio.AbstractEventLoop] = Future()
        self._stopped = asyncio.Event()
        self._scheduling = threading.Lock()
        self._is_stopping = False
        # A daemon: a thread that is not one would keep the program from ending.
        self._thread = threading.Thread(target=self._live, name=name, daemon=True)
        self._thread.start()
        self.loop = self._made.result()

    def start(self, coroutine: Coroutine[Any, Any, T]) -> Future[T]:
        """Start it in the loop, and do not wait."""
        with self._scheduling:
            if self._is_stopping:
                coroutine.close()
                raise NotAllowed("homing.sync was stopped by another thread")
            return asyncio.run_coroutine_threadsafe(coroutine, self.loop)

    def stop(self) -> None:
        with self._scheduling:
            self._is_stopping = True
        self.loop.call_soon_threadsafe(self._stopped.set)
        self._thread.join()

    def _live(self) -> None:
        with asyncio.Runner() as runner:
            try:
                self._made.set_result(runner.get_loop())
            except BaseException as error:
                self._made.set_exception(error)
                raise
            runner.run(self._until_stopped())

    async def _until_stopped(self) -> None:
        await self._stopped.wait()


def wait_for(future: Future[T]) -> T:
    """Its result, for a thread that runs no event loop."""
    try:
        return future.result()
    except CancelledError:
        raise StoreOutcomeUnknown(
            "Homing was stopped before this call ended: the request may have been executed"
        ) from None
