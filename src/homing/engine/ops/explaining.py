"""`why`, asked of the store: all that is known of a delivery, put into sentences."""

from __future__ import annotations

from collections.abc import Mapping

from homing.domain.redaction import mask_addresses
from homing.engine.ops.masking import without_addresses, without_persons_reason, without_reason
from homing.engine.ops.why import explain
from homing.engine.process.engine import Engine
from homing.engine.work.handler_names import handler_names

APP_WORKER = "homing worker --app MODULE:NAME"


async def explain_delivery(
    engine: Engine, delivery_id: str, worker_commands: Mapping[str, str], *, personal: bool
) -> list[str]:
    """`worker_commands` says, by route, which command serves it; others belong to applications.

    Without `personal` data addresses are masked, and what operators wrote is left out.
    """
    delivery = await engine.desk.show(delivery_id)
    await engine.pausing.refresh()
    await engine.liveness.look_if_fresh()
    paused = engine.pausing.fact(delivery.route)
    handlers = await handler_names(engine.process.store, [delivery])
    lines = explain(
        delivery if personal else without_addresses(delivery),
        await engine.desk.attempts(delivery_id),
        engine.routes.get(delivery.route),
        now_ms=engine.process.clock.now_ms(),
        paused=paused if paused is None or personal else without_persons_reason(paused),
        audit=[
            fact if personal else without_reason(fact)
            for fact in await engine.desk.audit(delivery_id)
        ],
        children=await engine.desk.unfinished_children(delivery),
        handler=handlers.get(delivery.id),
        start_with=(
            None
            if engine.liveness.is_served(delivery.queue)
            else worker_commands.get(delivery.route, APP_WORKER)
        ),
    )
    if delivery.route not in engine.routes:
        lines.append(f"Here it can only be read: {engine.desk.no_route(delivery.route)}.")
    return lines if personal else [mask_addresses(line) for line in lines]
