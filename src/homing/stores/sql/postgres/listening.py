"""Notifications of the server that something may have become due."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable

import psycopg

from homing.stores.sql.postgres.connection import Postgres, connect, is_pooled

CHANNEL = "homing"
# Where no notification comes (behind a pooler, or while the server is away), look this often.
POLL_EVERY_S = 0.25
_AGAIN_AFTER_S = 0.5


class Listener:
    """Listens on a connection of its own, from the first wait on."""

    def __init__(self, url: str, tell: Callable[[], None]) -> None:
        self._url = url
        self._tell = tell
        self._task: asyncio.Task[None] | None = None
        self._hears = False
        self._is_pooled = False

    def bounded(self, timeout_s: float) -> float:
        """How long a wait may rely on being told."""
        if self._task is None:
            self._task = asyncio.ensure_future(self._listen())
        return timeout_s if self._hears else min(timeout_s, POLL_EVERY_S)

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
            self._task = None

    async def _listen(self) -> None:
        while not self._is_pooled:
            with contextlib.suppress(psycopg.Error, OSError):
                async with await connect(self._url) as connection:
                    await self._hear(connection)
            self._hears = False
            await asyncio.sleep(_AGAIN_AFTER_S)

    async def _hear(self, connection: Postgres) -> None:
        if await is_pooled(connection):
            self._is_pooled = True  # notifications would come to another client, or to nobody
            return
        await connection.execute(f"listen {CHANNEL}")
        self._hears = True
        self._tell()  # what came before
        async for _ in connection.notifies():
            self._tell()
