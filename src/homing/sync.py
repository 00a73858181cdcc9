"""`homing.sync`: the same engine for callers without an event loop, over one background loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Iterable
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar, Unpack

from homing.domain.errors import IdempotencyConflict
from homing.domain.message import Message
from homing.engine.request import SubmitOptions, Ticket

if TYPE_CHECKING:
    from homing.app import Homing

T = TypeVar("T")


class SyncHoming:
    """Starts on first use; `close()` (or leaving the `with`) stops the worker and the loop."""

    def __init__(self, homing: Homing) -> None:
        self._homing = homing
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()

    def submit(
        self,
        message: Message,
        *,
        key: str | None = None,
        route: str | None = None,
        within: object = None,
        **options: Unpack[SubmitOptions],
    ) -> Ticket:
        """As `Homing.submit`. With `within` the record is written in the calling thread."""
        self._start()
        if within is not None:
            return self._homing.submit_within(message, within, key=key, route=route, **options)
        return self._call(self._homing.submit(message, key=key, route=route, **options))

    def submit_many(
        self,
        messages: Iterable[Message | tuple[str, Message]],
        *,
        route: str | None = None,
        **options: Unpack[SubmitOptions],
    ) -> list[Ticket | IdempotencyConflict]:
        """As `Homing.submit_many`."""
        self._start()
        return self._call(self._homing.submit_many(messages, route=route, **options))

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
        self._start()
        return self._call(self._homing.send(message, key=key, route=route, wait=wait, **options))

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Any other call, e.g. `homing.sync.run(homing.desk.show(id))`."""
        self._start()
        return self._call(coroutine)

    def close(self) -> None:
        """Stop the worker and the background loop."""
        with self._lock:
            if self._loop is None or self._thread is None:
                return
            self._call(self._homing.stop())
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()
            self._loop = self._thread = None

    def __enter__(self) -> Self:
        self._start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _start(self) -> None:
        with self._lock:
            if self._loop is not None:
                return
            self._loop = asyncio.new_event_loop()
            self._thread = threading.Thread(
                target=self._loop.run_forever, name="homing", daemon=True
            )
            self._thread.start()
            try:
                self._call(self._homing.start())
            except BaseException:
                self._loop.call_soon_threadsafe(self._loop.stop)
                self._thread.join()
                self._loop.close()
                self._loop = self._thread = None
                raise

    def _call(self, coroutine: Coroutine[Any, Any, T]) -> T:
        if self._loop is None:
            raise AssertionError("the background loop is not running")
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()
