"""A process that adds deliveries and prints each id once it is acknowledged.

    python -m tests.faults.adder PATH PREFIX CALLERS COUNT

It is there to be killed, traced, and given bad disks. A refusal is printed as `! NAME`, and the
same delivery is not tried again.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Iterator
from itertools import count, islice

from homing.domain.errors import StoreError
from homing.engine.commit.group_commit import GroupCommit
from homing.ports import Store
from homing.testing import samples
from tests.faults.stores import store_at


async def add_many(store: Store, prefix: str, callers: int, wanted: int | None) -> None:
    """Callers that wait at the same time share commits, as in the engine."""
    ids: Iterator[str] = (f"{prefix}{number:07}" for number in islice(count(), wanted))
    commits = GroupCommit(store)

    async def call() -> None:
        for delivery_id in ids:
            new = samples.keyed(delivery_id, delivery_id, payload=delivery_id.encode() * 20)
            try:
                await commits.add([new])
            except StoreError as error:
                say(f"! {type(error).__name__}")
            else:
                say(delivery_id)

    await asyncio.gather(*(call() for _ in range(callers)))


def say(line: str) -> None:
    os.write(1, f"{line}\n".encode())


async def main(path: str, prefix: str, callers: str, wanted: str) -> None:
    store = store_at(path)
    try:
        await store.open()
    except StoreError as error:
        say(f"! {type(error).__name__}")
        return
    say("ready")
    await add_many(store, prefix, int(callers), int(wanted) or None)
    await store.close()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
