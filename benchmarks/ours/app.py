"""The application under test: one event type whose handler does nothing but count."""

import asyncio
import itertools
import os
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks.contest.plan import PAYLOAD
from homing import Event, HandlerCall, Homing
from homing.domain.delivery import TERMINAL_STATES
from homing.ports import Query

TYPE = "noop"
BULK = 1_000

Handle = Callable[[HandlerCall], None]


def open_homing(store: str | Path, handle: Handle | None = None) -> Homing:
    """With a handler it works; without one it only accepts."""
    homing = Homing(store, worker=handle is not None)
    if handle is not None:
        call = handle

        @homing.on(TYPE, timeout_s=1.0)
        async def noop(event: HandlerCall) -> None:
            call(event)

    return homing


def event(enqueued_at_s: float = 0.0, number: int = 0) -> Event:
    return Event(TYPE, {"payload": PAYLOAD, "ts": enqueued_at_s, "number": number})


def keys() -> Iterator[str]:
    """Idempotency keys: every delivery has one of its own, as in real use."""
    run = os.urandom(4).hex()
    return (f"{run}-{number}" for number in itertools.count())


def remove(file: Path) -> None:
    """The database with its companions (WAL, locks, emergency journal)."""
    for path in file.parent.glob(f"{file.name}*"):
        path.unlink()


async def until_settled(homing: Homing, look_every_s: float = 0.02) -> None:
    """Nothing is due or in hand. Asked of an index: a count would slow what it measures."""
    queues = [
        queue for worker in homing.engine.workers.values() for queue in worker.route.served_queues
    ]
    while await homing.store.next_due_ms(queues) is not None:  # noqa: ASYNC110 - no event tells
        await asyncio.sleep(look_every_s)


async def unsettled(homing: Homing) -> int:
    """Deliveries that have not ended."""
    by_state = await homing.store.count(Query(), by=("state",))
    return sum(count for (state,), count in by_state.items() if state not in TERMINAL_STATES)
