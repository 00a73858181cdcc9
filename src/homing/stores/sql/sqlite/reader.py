"""A thread that reads, so that no read waits for a write."""

from __future__ import annotations

import asyncio
import queue
import sqlite3
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, TypeVarTuple

from msgspec import Struct

from homing.domain.errors import StoreUnavailable
from homing.stores.answering import call_in, settle
from homing.stores.sql.sqlite.connection import connect_to_read
from homing.stores.sql.sqlite.faults import store_error
from homing.stores.sql.sqlite.fork_pause import ForkPause

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


class Reader:
    """One connection in one thread; it sees every commit that was answered before it is asked.

    Not an executor: of what a small read costs, that would be the larger half.
    """

    def __init__(self, path: Path, busy_timeout_s: float) -> None:
        self._path = path
        self._connection = ForkPause(
            lambda: connect_to_read(path, busy_timeout_s), sqlite3.Connection.close
        )
        self._questions: queue.SimpleQueue[_Question | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._closed = False

    async def ask(self, question: Callable[[sqlite3.Connection, *Ts], T], *args: *Ts) -> T:
        if self._closed:
            raise StoreUnavailable(f"{self._path.name}: the store is closed")
        if self._thread is None:
            self._thread = threading.Thread(
                target=self._live, name=f"homing reader {self._path.name}", daemon=True
            )
            self._thread.start()
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[T] = loop.create_future()
        self._questions.put(_Question(question, args, loop, answer))
        return await answer

    async def stop(self) -> None:
        """Answer what was asked, then close the connection."""
        self._closed = True
        if self._thread is not None:
            self._questions.put(None)
            await asyncio.to_thread(self._thread.join)

    def _live(self) -> None:
        while (asked := self._questions.get()) is not None:
            if not asked.answer.cancelled():
                self._answer(asked)
        self._connection.close()

    def _answer(self, asked: _Question) -> None:
        answer: object = None
        fault: BaseException | None = None
        try:
            with self._connection as connection:
                answer = asked.ask(connection, *asked.args)
        except sqlite3.Error as error:
            fault = store_error(error, self._path)
            fault.__cause__ = error
        except BaseException as error:
            fault = error
        call_in(asked.loop, settle, asked.answer, answer, fault)


class _Question(Struct, eq=False):
    ask: Callable[..., Any]
    args: tuple[Any, ...]
    loop: asyncio.AbstractEventLoop
    answer: asyncio.Future[Any]
