"""What a racer does, in this process or as one of its own.

As a process: `python racer.py MODULE:FUNCTION URL TASK NAME`. It says `ready`, starts at the
first line on its standard input, and answers with a JSON list.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import sys
from collections.abc import Awaitable, Callable

from homing.domain.delivery import Change
from homing.ports import Added, Store
from homing.testing import samples

CONTESTED = 120
"""How many deliveries the racers find; their ids are those of `samples.many`."""

CALLERS = 25
"""How many callers of each racer want the one key."""

Task = Callable[[Store, str], Awaitable[list[str]]]


async def claim(store: Store, name: str) -> list[str]:
    """Claim until nothing is left; the ids that were got."""
    got: list[str] = []
    while claimed := await store.claim(samples.claim(name, limit=7)):
        got += [one.delivery.id for one in claimed]
    return got


async def add(store: Store, name: str) -> list[str]:
    """Many callers add under one key at once; the ids that were stored."""
    answers = await asyncio.gather(
        *(store.add([samples.keyed(f"{name}-{n}", "contested")]) for n in range(CALLERS))
    )
    return [answer.delivery_id for (answer,) in answers if isinstance(answer, Added)]


async def save(store: Store, name: str) -> list[str]:
    """Save over the first version of each, some in one call; the ids that were written."""
    written: list[str] = []
    deliveries = [new.delivery for new in samples.many(CONTESTED)]
    for start in range(0, CONTESTED, 5):
        batch = deliveries[start : start + 5]
        changes = [
            Change(
                samples.changed(one, state="delivered", due_at_ms=None, topic=name),
                ended=(samples.attempt(one.id, holder=name),),
            )
            for one in batch
        ]
        saved = await store.save(changes)
        written += [one.id for one, won in zip(batch, saved, strict=True) if won]
    return written


async def close(store: Store, name: str) -> list[str]:
    """End the children whose ids begin with this racer's name, one by one."""
    ended: list[str] = []
    for new in samples.many(CONTESTED, prefix=name, parent_id="p"):
        ended += [new.delivery.id for won in await store.save([samples.ended(new.delivery)]) if won]
    return ended


TASKS: dict[str, Task] = {"claim": claim, "add": add, "save": save, "close": close}


async def race(factory: str, url: str, task: str, name: str) -> list[str]:
    module, _, function = factory.partition(":")
    store: Store = getattr(importlib.import_module(module), function)(url)
    await store.open()
    try:
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        await asyncio.to_thread(sys.stdin.readline)
        return await TASKS[task](store, name)
    finally:
        await store.close()


if __name__ == "__main__":
    sys.stdout.write(json.dumps(asyncio.run(race(*sys.argv[1:]))) + "\n")
