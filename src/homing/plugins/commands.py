"""For the commands of a plugin: a service that is opened for one act."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

from msgspec import Struct

from homing.domain.errors import InvalidRequest
from homing.plugins.programs import assemble, load_program
from homing.plugins.store import why_missing
from homing.plugins.value import Plugin, Service

S = TypeVar("S", bound=Struct)
T = TypeVar("T")


def with_service(
    plugin: Plugin[S],
    act: Callable[[Service[S]], Awaitable[T]],
    *,
    config: Path | None = None,
    store: str | None = None,
    must_exist: bool = False,
) -> T:
    """Open the store as the settings say, act, and close; returns what `act` returns.

    No worker runs: what is submitted here is delivered by `homing NAME worker` or `serve`. `store`
    is the URL of another one. With `must_exist`, for a command that only reads or repairs, a store
    that would have to be made or migrated first is refused.
    """
    program = load_program(plugin, config, store=store, reading=must_exist)
    homing = assemble(program, worker=False)

    async def run() -> T:
        if must_exist:
            problem = await why_missing(homing.store, f"homing {plugin.name} migrate")
            if problem is not None:
                raise InvalidRequest("store", problem)
        async with homing:
            return await act(Service(homing, program.settings, program.general))

    return asyncio.run(run())
