"""The operator's verbs: with actor and reason, audited, two clicks with one effect (I21)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from homing.domain.delivery import Content, Delivery
from homing.domain.errors import InvalidRequest, NotAllowed, NotFound
from homing.domain.failure import Failure
from homing.domain.message import Event, decode_message
from homing.engine.intake.admission import Request
from homing.engine.ops.operations import Operations
from homing.engine.work.handlers import admit_event
from homing.ports import Answers, Batch, Done, FanOut, Outcome, Query, Work
from homing.stores.memory import MemoryStore
from tests.unit.engine.world import FaultyStore, Script, World, route, stage

HARD = Failure("gone", "reject", detail="no such mailbox")
LOST = Failure("answer_lost", "reject", maybe_sent=True)
WHY: dict[str, Any] = {"actor": "ann", "reason": "provider is back"}


async def dead(failure: Failure = HARD, **fields: Any) -> tuple[World, Delivery]:
    """A world whose only delivery has failed."""
    world = World(route(step=Script(failure), **fields), store=FaultyStore())
    accepted = await world.submit("order-1")
    await world.run()
    return world, await world.get(accepted.id)


VERBS: dict[str, Callable[[Operations, str, str, str], Awaitable[object]]] = {
    "replay": lambda ops, id_, actor, reason: ops.replay(id_, actor=actor, reason=reason),
    "restart": lambda ops, id_, actor, reason: ops.restart(id_, actor=actor, reason=reason),
    "dismiss": lambda ops, id_, actor, reason: ops.dismiss(id_, actor=actor, reason=reason),
    "restore": lambda ops, id_, actor, reason: ops.restore(id_, actor=actor, reason=reason),
    "cancel": lambda ops, id_, actor, reason: ops.cancel(id_, actor=actor, reason=reason),
    "confirm": lambda ops, id_, actor, reason: ops.confirm(
        id_, actor=actor, reason=reason, evidence="seen"
    ),
    "amend": lambda ops, id_, actor, reason: ops.amend(id_, b"x", actor=actor, reason=reason),
    "resend": lambda ops, id_, actor, reason: ops.resend(id_, actor=actor, reason=reason),
    "annotate": lambda ops, id_, actor, reason: ops.annotate(id_, actor=actor, note=reason),
}


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize(("actor", "reason"), [("", "why"), ("ann", " "), ("ann", "x" * 2001)])
async def test_i21_no_verb_without_actor_and_reason(verb: str, actor: str, reason: str) -> None:
    world, letter = await dead()

    with pytest.raises(InvalidRequest):
        await VERBS[verb](world.engine.ops, letter.id, actor, reason)

    assert await world.get(letter.id) == letter
    assert await world.engine.ops.audit(letter.id) == []


@pytest.mark.parametrize("verb", VERBS)
async def test_a_route_offers_only_its_own_verbs(verb: str) -> None:
    world, letter = await dead(verbs=frozenset())

    with pytest.raises(NotAllowed, match=f"route 'event' does not offer {verb}"):
        await VERBS[verb](world.engine.ops, letter.id, "ann", "why")
    assert await world.get(letter.id) == letter


@pytest.mark.parametrize("verb", VERBS)
async def test_what_is_not_there_is_not_found(verb: str) -> None:
    world, _ = await dead()

    with pytest.raises(NotFound, match="no delivery nobody"):
        await VERBS[verb](world.engine.ops, "nobody", "ann", "why")


@pytest.mark.parametrize("verb", ["replay", "restart", "dismiss", "amend"])
async def test_every_verb_leaves_an_audit(verb: str) -> None:
    world, letter = await dead()

    await VERBS[verb](world.engine.ops, letter.id, "ann", "provider is back")

    [fact] = await world.engine.ops.audit(letter.id)
    assert fact.value == {
        "verb": verb,
        "actor": "ann",
        "reason": "provider is back",
        "was": "failed",
    }


async def test_replay_tries_again_in_place() -> None:
    world, letter = await dead()

    replayed = await world.engine.ops.replay(letter.id, **WHY)
    assert replayed == await world.get(letter.id)
    await world.run()

    after = await world.get(letter.id)
    assert (after.state, after.cycle, after.key) == ("delivered", 2, "order-1")


async def test_i21_two_simultaneous_clicks_have_one_effect() -> None:
    world, letter = await dead()

    answers = await asyncio.gather(
        *(world.engine.ops.replay(letter.id, **WHY) for _ in range(5)), return_exceptions=True
    )

    assert sum(isinstance(answer, Delivery) for answer in answers) == 1
    assert sum(isinstance(answer, NotAllowed) for answer in answers) == 4
    assert len((await world.get(letter.id)).failure_history) == 1
    assert len(await world.engine.ops.audit(letter.id)) == 1


async def test_i21_a_click_that_is_overtaken_by_a_whole_cycle_does_nothing() -> None:
    class Overtaken(MemoryStore):
        overtake = False

        async def commit(self, batch: Batch) -> Answers:
            if self.overtake and batch.puts:
                self.overtake = False
                await world.engine.ops.replay(accepted.id, **WHY)
                await world.run()
            return await super().commit(batch)

    store = Overtaken()
    world = World(route(step=Script(HARD, HARD)), store=store)
    accepted = await world.submit()
    await world.run()

    store.overtake = True
    with pytest.raises(NotAllowed, match="it is in cycle 2, not 1"):
        await world.engine.ops.replay(accepted.id, **WHY)

    after = await world.get(accepted.id)
    assert (after.state, after.cycle) == ("failed", 2)


async def test_i21_a_click_that_comes_late_does_nothing() -> None:
    world, letter = await dead()
    await world.engine.ops.replay(letter.id, cycle=1, **WHY)
    world.route.steps["handle"].answers.append(HARD)  # type: ignore[union-attr] # a Script
    await world.run()
    failed_again = await world.get(letter.id)
    assert (failed_again.state, failed_again.cycle) == ("failed", 2)

    for verb in (world.engine.ops.replay, world.engine.ops.restart, world.engine.ops.dismiss):
        with pytest.raises(NotAllowed, match="it is in cycle 2, not 1"):
            await verb(letter.id, cycle=1, **WHY)

    assert await world.get(letter.id) == failed_again


async def test_a_verb_that_others_keep_overtaking_gives_up() -> None:
    world, letter = await dead()

    async def overtaken(*args: object) -> list[bool]:
        return [False]

    world.store.save = overtaken  # type: ignore[method-assign, assignment] # always too late
    with pytest.raises(NotAllowed, match="it is being changed by others"):
        await world.engine.ops.dismiss(letter.id, **WHY)


async def test_resend_is_a_second_delivery_and_leaves_the_first_as_it_was() -> None:
    world, letter = await dead()

    clone = await world.engine.ops.resend(letter.id, **WHY)
    await world.run()

    assert (clone.clone_of, clone.source, clone.key) == (
        letter.id,
        "operator_resend",
        f"resend:{letter.id}:1",
    )
    assert (await world.get(clone.id)).state == "delivered"
    assert await world.get(letter.id) == letter
    assert len(await world.engine.ops.audit(letter.id)) == 1
    assert len(await world.engine.ops.audit(clone.id)) == 1


async def test_two_clicks_on_resend_at_once_are_one_clone_and_one_later_is_another() -> None:
    world, letter = await dead()

    one, other = await asyncio.gather(
        *(world.engine.ops.resend(letter.id, **WHY) for _ in range(2))
    )
    later = await world.engine.ops.resend(letter.id, **WHY)

    assert one.id == other.id != later.id
    assert (await world.store.count(Query(clone_of=letter.id)))[()] == 2


async def test_what_has_lost_its_payload_cannot_be_resent() -> None:
    world, letter = await dead()
    world.store.disk.put_content(letter.id, Content())

    with pytest.raises(NotAllowed, match="its payload is gone"):
        await world.engine.ops.resend(letter.id, **WHY)


async def test_dismiss_restore_and_cancel() -> None:
    world, letter = await dead()
    ops = world.engine.ops

    assert (await ops.dismiss(letter.id, **WHY)).state == "dismissed"
    assert (await ops.restore(letter.id, **WHY)).state == "failed"
    waiting = await world.submit("order-2")
    assert (await ops.cancel(waiting.id, **WHY)).state == "dismissed"
    assert await world.run() == 0


async def test_confirm_demands_evidence_and_keeps_it() -> None:
    world, letter = await dead(LOST)

    with pytest.raises(InvalidRequest, match="evidence"):
        await world.engine.ops.confirm(letter.id, evidence=" ", **WHY)
    after = await world.engine.ops.confirm(letter.id, evidence="ann has it", **WHY)

    assert after.state == "delivered"
    assert after.receipt is not None
    assert after.receipt.detail == "ann has it"


async def test_amend_takes_a_message_as_submit_does() -> None:
    world, letter = await dead()

    await world.engine.ops.amend(letter.id, Event("paid", {"order": 2}), **WHY)

    content = await world.store.content(letter.id)
    assert content is not None
    assert decode_message(content.payload) == Event("paid", {"order": 2})


async def test_amend_refuses_what_is_no_message_or_belongs_elsewhere() -> None:
    world, letter = await dead(admit=admit_event, queues=("paid", "refunded"))
    wrong: Any = {"order": 2}

    with pytest.raises(InvalidRequest, match="must be an Email, an Event or a Job, not dict"):
        await world.engine.ops.amend(letter.id, wrong, **WHY)
    with pytest.raises(InvalidRequest, match=r"is for 'event/refunded'; delivery .* 'event/paid'"):
        await world.engine.ops.amend(letter.id, Event("refunded"), **WHY)


async def test_amend_keeps_the_old_payload_readable() -> None:
    world, letter = await dead()
    before = await world.store.content(letter.id)

    await world.engine.ops.amend(letter.id, b"better", **WHY)

    content = await world.store.content(letter.id)
    assert content is not None
    assert before is not None
    assert (content.payload, content.results["payload.1"]) == (b"better", before.payload)


async def test_attempts_show_the_scheduled_one_last() -> None:
    soft = Failure("deferred", code="451")
    world = World(route(step=Script(soft)))
    accepted = await world.submit()
    await world.run()

    ended, scheduled = await world.engine.ops.attempts(accepted.id)

    assert (ended.number, ended.status, ended.code) == (1, "failed", "451")
    assert (scheduled.number, scheduled.status) == (2, "scheduled")
    assert scheduled.scheduled_for_ms == world.now_ms + 60_000


async def test_attempts_show_the_running_one_last_and_an_ended_life_has_none() -> None:
    world = World(route())
    accepted = await world.submit()
    await world.crash_of_another(accepted.id)

    [running] = await world.engine.ops.attempts(accepted.id)
    assert (running.status, running.holder) == ("running", "gone")

    await world.run(after_s=1)
    ended = await world.engine.ops.attempts(accepted.id)
    assert [attempt.status for attempt in ended] == ["interrupted", "done"]
    with pytest.raises(NotFound):
        await world.engine.ops.attempts("nobody")


async def family(*answers: Outcome) -> tuple[World, Delivery, Script]:
    """A parent with one child; the child's step answers in turn."""
    child_step = Script(*answers)

    async def step(work: Work) -> Outcome:
        if work.delivery.parent_id is not None:
            return await child_step(work)
        return FanOut((work.child(payload=b"part"),))

    world = World(route(step=step))
    accepted = await world.submit()
    await world.run()
    return world, await world.get(accepted.id), child_step


@pytest.mark.parametrize("verb", ["replay", "restart"])
async def test_replaying_a_parent_replays_its_failed_children(verb: str) -> None:
    world, parent, child_step = await family(HARD, Done())
    assert (parent.state, parent.failed_because) == ("failed", "rejected")

    await VERBS[verb](world.engine.ops, parent.id, "ann", "fixed")
    await world.run()

    assert (await world.get(parent.id)).state == "delivered"
    assert len(child_step.seen) == 2


async def test_a_worker_in_between_does_not_fail_the_parent_again() -> None:
    world, parent, _ = await family(HARD, Done())
    save = world.store.save

    async def save_and_work(*args: Any) -> list[bool]:
        saved = await save(*args)
        world.store.save = save  # type: ignore[method-assign] # once
        await world.engine.workers["event"].run_until_idle()
        return saved

    world.store.save = save_and_work  # type: ignore[method-assign, assignment] # a worker is quick
    await world.engine.ops.replay(parent.id, **WHY)
    await world.run()

    assert (await world.get(parent.id)).state == "delivered"


async def test_replaying_a_child_makes_its_failed_parent_look_again() -> None:
    world, parent, child_step = await family(HARD, Done())
    [child] = child_step.seen

    await world.engine.ops.replay(child.id, **WHY)
    await world.run()

    assert (await world.get(parent.id)).state == "delivered"


async def test_confirming_a_child_makes_its_failed_parent_look_again() -> None:
    world, parent, child_step = await family(LOST)
    [child] = child_step.seen
    assert parent.failed_because == "uncertain"

    await world.engine.ops.confirm(child.id, evidence="seen", **WHY)
    await world.run()

    assert (await world.get(parent.id)).state == "delivered"


async def test_a_route_paused_by_hand_takes_nothing_until_it_is_resumed() -> None:
    world = World(route(stage()))
    ops = world.engine.ops

    await ops.pause("event", **WHY)
    accepted = await world.submit()
    request = Request(message=Event("paid"), key="order-2")
    ticket = await world.engine.admission.send(world.route, request)
    assert ticket.delivery.state == "pending"
    await ops.resume("event", **WHY)
    await world.run()

    assert (await world.get(accepted.id)).state == "delivered"
    verbs = [(fact.value or {})["verb"] for fact in await ops.audit("route:event")]
    assert sorted(map(str, verbs)) == ["pause", "resume"]
    with pytest.raises(NotFound, match="no route 'nowhere'"):
        await ops.pause("nowhere", **WHY)
