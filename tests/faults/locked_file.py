"""A database file that another program keeps locked, and a provider that answers when told."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path

from homing.domain.delivery import Receipt
from homing.domain.failure import Failure
from homing.ports import Accepted, Envelope, Ready


@asynccontextmanager
async def locked(path: Path) -> AsyncIterator[None]:
    """No other connection can write meanwhile."""
    with closing(sqlite3.connect(path, isolation_level=None, check_same_thread=False)) as database:
        database.execute("pragma busy_timeout = 30000")
        await asyncio.to_thread(database.execute, "begin immediate")
        try:
            yield
        finally:
            database.execute("rollback")


class GatedProvider:
    """Counts what is prepared and sent; each waits for its gate."""

    token_window_s = 0.0

    def __init__(self) -> None:
        self.may_prepare = asyncio.Event()
        self.may_answer = asyncio.Event()
        self.preparing = asyncio.Event()
        self.sending = asyncio.Event()
        self.sent: list[str] = []

    async def prepare(self, envelope: Envelope) -> Ready | Failure:
        self.preparing.set()
        await self.may_prepare.wait()
        return _Gated(self, envelope)

    async def close(self) -> None:
        """Nothing is open."""


class _Gated:
    def __init__(self, provider: GatedProvider, envelope: Envelope) -> None:
        self._provider = provider
        self._envelope = envelope

    async def commit(self) -> Accepted | Failure:
        self._provider.sent.append(self._envelope.delivery_id)
        self._provider.sending.set()
        await self._provider.may_answer.wait()
        return Accepted(Receipt("n-1"))

    async def abandon(self) -> None:
        """Nothing was sent."""
