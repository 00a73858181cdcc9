"""FastAPI and Starlette: Homing runs while the application does."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

from homing.runtime.app import Homing

Lifespan = Callable[[Any], AbstractAsyncContextManager[Any]]


def lifespan(homing: Homing, inner: Lifespan | None = None) -> Lifespan:
    """`FastAPI(lifespan=lifespan(homing))`; `inner` is a lifespan of your own, run inside it."""

    @asynccontextmanager
    async def run(app: Any) -> AsyncIterator[Any]:
        async with homing:
            if inner is None:
                yield None
            else:
                async with inner(app) as state:
                    yield state

    return run
