"""Inline attempts: in the caller's call or in the background, with retries that are due at once."""

from __future__ import annotations

import asyncio
from typing import Any

from homing.domain.failure import Failure
from homing.domain.message import Event
from homing.domain.policy import Ladder, Plan, Retry, Stage
from homing.engine.intake.admission import Request, Ticket
from homing.engine.route import Route
from tests.unit.engine.providers import Flock, Provider, sending
from tests.unit.engine.world import Patient, Script, World, quiet, route

SOFT = Failure("deferred", code="451")


async def send(world: World, **words: Any) -> Ticket:
    return await world.engine.admission.send(world.route, Request(message=Event("paid")), **words)


async def test_in_the_background_it_is_an_inline_call_too() -> None:
    step = Patient()
    world = World(route(step=step, rules={"inline_counts": False}))

    ticket = await send(world, wait=False)
    assert (ticket.delivery.state, ticket.delivery.phase) == ("in_flight", "inline")
    await step.came.wait()
    step.to_state.set()
    await world.until_told("succeed")

    [attempt] = await world.store.attempts(ticket.delivery_id)
    assert (attempt.phase, attempt.counted) == ("inline", False)


async def test_after_a_failure_in_the_background_the_first_step_of_the_ladder_follows() -> None:
    world = World(route(step=Script(SOFT), rules={"inline_counts": False}))

    ticket = await send(world, wait=False)
    await world.until_told("fail")

    after = await world.get(ticket.delivery_id)
    assert (after.state, after.attempts_spent) == ("pending", 0)
    assert after.due_at_ms == world.now_ms, "the ladder's first step is for the second attempt"


async def test_a_stop_waits_for_what_goes_on_in_the_background() -> None:
    step = Patient()
    world = World(route(step=step))
    ticket = await send(world, wait=False)
    await step.came.wait()

    step.to_state.set()
    await world.engine.stop(grace_s=5.0)

    assert (await world.get(ticket.delivery_id)).state == "delivered"


async def test_a_stop_gives_back_what_has_not_ended_in_the_background() -> None:
    step = Patient()
    world = World(route(step=step))
    ticket = await send(world, wait=False)
    await step.came.wait()

    await world.engine.stop(grace_s=0.0)

    after = await world.get(ticket.delivery_id)
    assert (after.state, after.crashes) == ("pending", 0)


async def test_a_stop_never_releases_what_is_marked_in_the_background() -> None:
    provider = Flock()
    world = World(sending(provider))
    ticket = await send(world, wait=False)
    await quiet()
    assert len(provider.sent) == 1

    await world.engine.stop(grace_s=0.0)

    after = await world.get(ticket.delivery_id)
    assert (after.state, after.committing) == ("in_flight", True)


def hasty(provider: Provider, *, at_once: bool) -> Route:
    retry = Retry(Ladder((0.0, 60.0), first=1), max_attempts=3)
    plan = Plan(
        stages=(Stage(name="send", retry=retry, sends=True),),
        inline_counts=False,
        inline_retries_at_once=at_once,
    )
    made = sending(provider)
    return Route(name="mail", plan=plan, steps=made.steps, provider=provider)


async def test_a_retry_that_is_due_at_once_is_part_of_the_same_call() -> None:
    provider = Provider(SOFT)
    world = World(hasty(provider, at_once=True))

    ticket = await send(world)

    assert (ticket.delivery.state, len(provider.sent)) == ("delivered", 2)
    attempts = await world.store.attempts(ticket.delivery_id)
    assert [(a.phase, a.counted, a.status) for a in attempts] == [
        ("inline", False, "failed"),
        ("worker", True, "done"),
    ]


async def test_only_one_retry_follows_at_once() -> None:
    provider = Provider(SOFT, SOFT)
    world = World(hasty(provider, at_once=True))

    ticket = await send(world)

    assert (ticket.delivery.state, len(provider.sent)) == ("pending", 2)
    assert ticket.delivery.due_at_ms == world.now_ms + 60_000


async def test_a_retry_at_once_uses_up_no_permit() -> None:
    """There are 64 send permits: a second one for each call would end them."""
    world = World(hasty(Provider(*[SOFT] * 140), at_once=True))

    async with asyncio.timeout(10):
        for _ in range(70):
            await send(world)

    permits = world.engine.runner.permits.of(world.engine.routes["mail"]).sends
    assert await permits.take(64) == 64


async def test_without_the_plans_leave_the_retry_is_the_workers() -> None:
    provider = Provider(SOFT)
    world = World(hasty(provider, at_once=False))

    ticket = await send(world)

    assert (ticket.delivery.state, len(provider.sent)) == ("pending", 1)
