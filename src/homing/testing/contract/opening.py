"""How the suite opens a store: the one thing that the tests of a store must define."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Protocol

import pytest_asyncio

from homing.ports import Store


class Opener(Protocol):
    """Opens handles on the same data, which is empty at first.

    `url` and `factory` let other processes open it too: `factory` is "module:function", and
    the function takes the URL and returns a store that is not yet open. A store that exists in
    one process only has no URL; its races run between two handles instead.
    """

    url: str | None
    factory: str | None

    async def open(self) -> Store:
        """A new, open handle, as another process or a restarted one would have."""

    async def close_all(self) -> None:
        """Close every handle that was opened."""


class Opened:
    """Gives each case a store of its own."""

    @pytest_asyncio.fixture
    async def store(self, opener: Opener) -> AsyncIterator[Store]:
        yield await opener.open()
        await opener.close_all()

    @pytest_asyncio.fixture
    async def other(self, store: Store, opener: Opener) -> Store:
        """A second handle, as a second process would have; closed with the first."""
        del store  # only opened before
        return await opener.open()
