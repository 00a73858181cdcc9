"""The workers and the oldest due work, read from the store, for people and programs."""

from __future__ import annotations

from msgspec import Struct

from homing.engine.process.engine import Engine
from homing.engine.process.liveness import WORKER


class WorkerView(Struct, frozen=True, kw_only=True):
    """A process with a heartbeat; `here`: it is this process."""

    name: str
    host: str
    pid: int | None
    queues: tuple[str, ...]
    beat_at_ms: int
    alive: bool
    here: bool


async def list_workers(engine: Engine) -> list[WorkerView]:
    """Every process with a recent heartbeat, this one first."""
    await engine.liveness.look_if_fresh()
    found = []
    for fact in await engine.store.facts(WORKER):
        value = fact.value or {}
        here = fact.key == engine.holder
        pid = str(value.get("pid") or "")
        queues = str(value.get("queues") or "").split("\n")
        found.append(
            WorkerView(
                name=fact.key,
                host=str(value.get("host") or ""),
                pid=int(pid) if pid.isdecimal() else None,
                queues=tuple(sorted(queue for queue in queues if queue)),
                beat_at_ms=fact.at_ms,
                alive=here or fact.key in engine.liveness.beating,
                here=here,
            )
        )
    return sorted(found, key=lambda each: (not each.here, not each.alive, each.name))


async def oldest_due_ms(engine: Engine) -> int | None:
    """The due time of the delivery that waits longest, on routes that are not paused."""
    queues = [
        queue
        for route in engine.routes.values()
        if not engine.pausing.is_paused(route.name)
        for queue in route.served_queues
    ]
    due_ms = await engine.store.next_due_ms(queues)
    return due_ms if due_ms is not None and due_ms <= engine.clock.now_ms() else None
