"""What a plugin asks of a Homing that runs, beside what its applications do."""

from __future__ import annotations

from homing.engine.intake.adopting import Foreign, adopt
from homing.engine.process.store_report import why_not_writable
from homing.engine.process.unserved import unserved_queues
from homing.ports import Added, Existing
from homing.runtime.app import Homing


def now_ms(homing: Homing) -> int:
    """The time by its clock, which tests move and a time scale makes run faster."""
    return homing.engine.clock.now_ms()


async def add_foreign(homing: Homing, route: str, foreign: Foreign) -> Added | Existing:
    """Store a record of another program, in the state that it had there."""
    engine = homing.engine
    new = adopt(engine.admission.prepare(engine.routes[route], foreign.request), foreign.state)
    [answer] = await homing.store.add([new])
    return answer


async def waiting_unserved(homing: Homing, queue: str) -> int | None:
    """How many deliveries wait in a queue that no live worker serves; None if one does."""
    liveness = homing.engine.liveness
    await liveness.look()
    if liveness.is_served(queue) or queue in await liveness.queues_of_timers():
        return None
    return (await unserved_queues(homing.store, liveness)).get(queue, 0)


async def store_problem(homing: Homing) -> str | None:
    """Why the store does not accept a write; None if it does."""
    return await why_not_writable(homing.store, homing.engine.clock)


def provider_problems(homing: Homing) -> list[str]:
    """What workers have reported about their providers, by the last check of liveness."""
    return list(homing.engine.liveness.problems_elsewhere.values())
