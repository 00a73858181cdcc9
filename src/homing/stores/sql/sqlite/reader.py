"""A thread that reads, so that no read waits for a write."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Concatenate, ParamSpec, TypeVar

from homing.domain.errors import StoreUnavailable
from homing.stores.sql.sqlite.connection import connect_to_read
from homing.stores.sql.sqlite.faults import store_error
from homing.stores.sql.sqlite.fork_pause import ForkPause

P = ParamSpec("P")
T = TypeVar("T")


class Reader:
    """One connection in one thread; it sees every commit that was answered before it is asked."""

    def __init__(self, path: Path, busy_timeout_s: float) -> None:
        self._path = path
        self._connection = ForkPause(
            lambda: connect_to_read(path, busy_timeout_s), sqlite3.Connection.close
        )
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=f"homing reader {path.name}")
        self._closed = False

    async def ask(
        self,
        question: Callable[Concatenate[sqlite3.Connection, P], T],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        def answer() -> T:
            try:
                with self._connection.use() as connection:
                    return question(connection, *args, **kwargs)
            except sqlite3.Error as error:
                raise store_error(error, self._path) from error

        if self._closed:
            raise StoreUnavailable(f"{self._path.name}: the store is closed")
        return await asyncio.get_running_loop().run_in_executor(self._thread, answer)

    async def stop(self) -> None:
        self._closed = True
        await asyncio.get_running_loop().run_in_executor(self._thread, self._connection.close)
        await asyncio.to_thread(self._thread.shutdown)
