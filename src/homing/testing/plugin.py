"""The pytest plugin: fixtures `outbox` (async tests) and `sync_outbox` (all others)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from homing.testing.outbox import Outbox, SyncOutbox

try:
    from pytest_asyncio import fixture as async_fixture
except ImportError:  # without pytest-asyncio there are no async tests to serve
    async_fixture = None  # type: ignore[assignment] # said so above


@pytest.fixture
def sync_outbox() -> Iterator[SyncOutbox]:
    """A real engine on a memory store, for code that uses `homing.sync`."""
    from homing.testing.outbox import SyncOutbox

    with SyncOutbox() as outbox:
        yield outbox


if async_fixture is not None:

    @async_fixture
    async def outbox() -> AsyncIterator[Outbox]:
        """A real engine on a memory store, for code that awaits `homing`."""
        from homing.testing.outbox import Outbox

        async with Outbox() as started:
            yield started
