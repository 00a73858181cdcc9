"""One attempt: doubt is settled first, the step is called, and its outcome becomes a change."""

from __future__ import annotations

import asyncio

import pytest
from msgspec.structs import replace

from homing.domain.delivery import Fact, Receipt
from homing.domain.errors import TerminalError
from homing.domain.failure import Failure, Refusal
from homing.domain.identity import provider_token
from homing.domain.message import Email
from homing.engine.ops.why import explain
from homing.engine.route import Route
from homing.ports import (
    Absent,
    Accepted,
    Done,
    FanOut,
    Found,
    Outcome,
    Unknown,
    Work,
)
from homing.testing.clocks import moment
from tests.unit.engine.providers import Looking, Provider, sending
from tests.unit.engine.world import MINUTE_MS, Script, World, route, stage

FAULT = Failure("auth_failed", "route_fault", detail="bad credentials")
SOFT = Failure("deferred", code="451")
LOST = Failure("answer_lost", maybe_sent=True)


async def test_done_is_delivered_with_the_receipt() -> None:
    world = World(sending(Provider()))
    accepted = await world.submit()

    assert await world.run() == 1

    after = await world.get(accepted.id)
    assert (after.state, after.receipt) == ("delivered", Receipt("n-1", world.now_ms))
    assert world.names == ["mark_committing", "succeed"]


async def test_i17_every_attempt_sends_the_same_bytes_under_the_same_token() -> None:
    provider = Provider(SOFT, SOFT)
    world = World(sending(provider))
    await world.submit()

    for _ in range(3):
        await world.run(after_s=60)

    assert len(provider.sent) == 3
    assert len({(envelope.data, envelope.token) for envelope in provider.sent}) == 1


async def test_found_is_delivered_without_a_second_send() -> None:
    provider = Looking(LOST, says=Found(Receipt("n-7", evidence="lookup")))
    world = World(sending(provider))
    accepted = await world.submit()

    await world.run()
    await world.run(after_s=60)

    after = await world.get(accepted.id)
    assert (after.state, len(provider.sent)) == ("delivered", 1)
    assert after.receipt is not None
    assert after.receipt.evidence == "lookup"
    assert provider.asked == [provider_token(accepted)]


async def test_absent_is_sent_again_and_is_no_duplicate() -> None:
    provider = Looking(LOST, says=Absent())
    world = World(sending(provider))
    accepted = await world.submit()

    await world.run()
    await world.run(after_s=60)

    after = await world.get(accepted.id)
    assert (after.state, after.maybe_duplicate, len(provider.sent)) == ("delivered", False, 2)


async def test_unknown_waits_as_long_as_the_plan_has_patience() -> None:
    provider = Looking(LOST, says=Unknown(ask_again_s=600))
    world = World(sending(provider, doubt_patience_s=3600.0))
    accepted = await world.submit()
    await world.run()

    await world.run(after_s=60)
    waiting = await world.get(accepted.id)
    assert (waiting.state, waiting.due_at_ms) == ("pending", world.now_ms + 10 * MINUTE_MS)
    assert (waiting.attempts_spent, len(provider.sent)) == (1, 1)

    await world.run(after_s=3600)
    after = await world.get(accepted.id)
    assert (after.state, after.maybe_duplicate, len(provider.sent)) == ("delivered", True, 2)


async def test_a_lookup_that_breaks_is_no_evidence() -> None:
    provider = Looking(LOST, says=Absent())
    world = World(sending(provider))

    async def broken(token: str, notification_id: str | None = None) -> Found | Absent | Unknown:
        raise ConnectionError("down")

    provider.lookup = broken  # type: ignore[method-assign] # it breaks
    accepted = await world.submit()
    await world.run()
    await world.run(after_s=60)

    after = await world.get(accepted.id)
    assert (after.state, after.maybe_sent, len(provider.sent)) == ("pending", True, 1)


async def test_without_lookup_it_is_sent_again_and_flagged() -> None:
    provider = Provider(LOST)
    world = World(sending(provider))
    accepted = await world.submit()

    await world.run()
    await world.run(after_s=60)

    after = await world.get(accepted.id)
    assert (after.state, after.maybe_duplicate, len(provider.sent)) == ("delivered", True, 2)


async def test_on_hold_it_is_not_sent_again_but_stands_on_the_desk() -> None:
    provider = Provider(LOST)
    world = World(sending(provider, on_unknown="hold"))
    accepted = await world.submit()

    await world.run()
    await world.run(after_s=60)

    after = await world.get(accepted.id)
    assert (after.state, after.failed_because, len(provider.sent)) == ("failed", "uncertain", 1)


async def test_a_message_that_is_in_doubt_again_and_again_is_not_sent_without_end() -> None:
    provider = Provider(*[LOST] * 9)
    world = World(sending(provider, attempts=9, max_doubtful_sends=3))
    accepted = await world.submit()

    for _ in range(9):
        await world.run()
        world.clock.advance(60)

    after = await world.get(accepted.id)
    assert (after.state, after.failed_because, len(provider.sent)) == ("failed", "uncertain", 3)
    attempts = await world.store.attempts(accepted.id)
    *_, told = explain(after, attempts, world.route, now_ms=world.clock.now_ms())
    assert "may have it up to 3 times. After 3 sends in doubt a person decides" in told


async def test_within_the_token_window_it_is_sent_again_even_where_doubt_is_held() -> None:
    provider = Provider(LOST, token_window_s=3600.0)
    world = World(sending(provider, on_unknown="hold"))
    accepted = await world.submit()

    await world.run()
    await world.run(after_s=60)

    after = await world.get(accepted.id)
    assert (after.state, after.maybe_duplicate, len(provider.sent)) == ("delivered", True, 2)


async def test_half_of_the_token_window_is_kept_back() -> None:
    provider = Provider(LOST, token_window_s=100.0)
    world = World(sending(provider, on_unknown="hold"))
    accepted = await world.submit()

    await world.run()
    await world.run(after_s=60)

    assert (await world.get(accepted.id)).failed_because == "uncertain"
    assert len(provider.sent) == 1


async def test_p6_a_crash_after_the_mark_is_in_doubt_and_one_before_is_not() -> None:
    provider = Provider()
    world = World(sending(provider, on_unknown="hold"))
    early, late = await world.submit("early"), await world.submit("late")
    await world.crash_of_another(late.id, committing=True)
    await world.crash_of_another(early.id)

    await world.run(after_s=1)

    assert (await world.get(early.id)).state == "delivered"
    assert (await world.get(late.id)).failed_because == "uncertain"
    assert [envelope.delivery_id for envelope in provider.sent] == [early.id]


async def test_what_an_earlier_owner_learnt_too_late_is_evidence() -> None:
    provider = Provider()
    world = World(sending(provider, on_unknown="hold"))
    accepted = await world.submit()
    await world.crash_of_another(accepted.id, committing=True)
    value = {"status": "done", "stage": "send", "notification_id": "n-3"}
    await world.store.save(
        [], [Fact("late_outcome", f"{accepted.id}/1", world.now_ms, dict(value))]
    )

    await world.run(after_s=1)

    after = await world.get(accepted.id)
    assert (after.state, provider.sent) == ("delivered", [])
    assert after.receipt is not None
    assert (after.receipt.notification_id, after.receipt.evidence) == ("n-3", "late")


async def test_i7_a_lookup_for_the_rest_says_nothing_about_who_was_in_doubt_before() -> None:
    put_off = {"bob@example.org": Refusal(permanent=False, code="451")}
    hard = Failure("refused", "reject", code="550")
    provider = Looking(LOST, Accepted(Receipt("n-1"), put_off), hard, says=Unknown())
    world = World(sending(provider, doubt_patience_s=0.0))
    accepted = await world.submit(message=Email(to=["ann@example.org", "bob@example.org"]))
    await world.run()
    await world.run(after_s=60)
    half = await world.get(accepted.id)
    assert [r.outcome for r in half.recipients] == ["accepted", "maybe"]

    # By another token the provider has nothing: that is no evidence about the first attempt.
    provider.says = Absent()
    await world.run(after_s=60)

    after = await world.get(accepted.id)
    assert (after.state, after.failed_because) == ("failed", "uncertain")


@pytest.mark.parametrize(
    ("answer", "state", "error_class"),
    [
        (SOFT, "pending", "deferred"),
        (ValueError("bad"), "pending", "ValueError"),
        (TerminalError("never"), "failed", "TerminalError"),
        (TimeoutError("slow"), "pending", "timed_out"),
        (None, "pending", "engine_error"),
    ],
    ids=["failure", "surprise", "terminal", "timeout", "nothing"],
)
async def test_whatever_a_step_does_becomes_an_attempt(
    answer: Outcome | Exception | None, state: str, error_class: str
) -> None:
    world = World(route(step=Script(answer)))
    accepted = await world.submit()

    await world.run()

    after = await world.get(accepted.id)
    assert after.failure is not None
    assert (after.state, after.failure.error_class, after.attempts_spent) == (state, error_class, 1)


async def test_a_step_that_never_answers_is_timed_out() -> None:
    async def hang(work: Work) -> Outcome:
        await asyncio.Event().wait()
        return Done()

    world = World(route(stage(timeout_s=0.01), step=hang))
    accepted = await world.submit()

    await world.run()

    after = await world.get(accepted.id)
    assert after.failure is not None
    assert (after.failure.error_class, after.maybe_sent) == ("timed_out", False)
    assert after.failure.detail == "no answer within 0.01 s"


async def test_a_secret_in_a_surprise_is_not_stored() -> None:
    world = World(route(step=Script(ValueError("password=CANARY for ann.canary@example.org"))))
    accepted = await world.submit()

    await world.run()

    after = await world.get(accepted.id)
    assert "canary" not in repr(after).lower()
    assert "canary" not in repr(await world.store.attempts(accepted.id)).lower()


async def test_what_has_expired_is_not_tried() -> None:
    step = Script()
    world = World(route(step=step))
    accepted = await world.submit(expires_at=moment(world.now_ms + 1000))

    await world.run(after_s=1)

    assert ((await world.get(accepted.id)).failed_because, step.seen) == ("expired", [])


async def test_i16_a_delivery_that_kills_its_workers_is_poison_in_the_end() -> None:
    step = Script()
    world = World(route(step=step, rules={"max_crashes": 2}))
    accepted = await world.submit()

    stored = await world.get(accepted.id)
    world.store.disk.put(replace(stored, crashes=2))
    await world.run()

    assert ((await world.get(accepted.id)).failed_because, step.seen) == ("poison", [])


async def test_a_stage_that_the_plan_has_lost_is_a_dead_letter_and_harms_nobody() -> None:
    world = World(route())
    accepted, other = await world.submit("a"), await world.submit("b")
    world.store.disk.put(replace(await world.get(accepted.id), stage="gone"))

    await world.run()

    assert (await world.get(accepted.id)).state == "failed"
    assert (await world.get(other.id)).state == "delivered"


async def test_i18_a_stage_starts_after_the_result_before_it_is_stored() -> None:
    step = Script(Done(b"page"), SOFT, Done())
    world = World(route(stage("fetch"), stage("notify"), step=step))
    accepted = await world.submit()

    await world.run()
    assert [(d.stage, d.attempts_spent) for d in step.seen] == [("fetch", 0), ("notify", 0)]
    assert step.contents[1].results == {"fetch": b"page"}

    await world.run(after_s=60)
    assert [d.stage for d in step.seen] == ["fetch", "notify", "notify"]
    assert (await world.get(accepted.id)).state == "delivered"


async def test_a_fan_out_is_joined_when_its_children_have_ended() -> None:
    async def step(work: Work) -> Outcome:
        if work.delivery.parent_id is not None:
            return Done()
        names = ("ann", "bob")
        return FanOut(tuple(work.child(payload=name.encode()) for name in names))

    world = World(route(step=step))
    accepted = await world.submit()

    await world.run()

    parent = await world.get(accepted.id)
    assert (parent.state, parent.open_children) == ("delivered", 0)
    assert world.names == ["fan_out", "succeed", "succeed", "succeed"]


async def test_two_children_of_one_queue_are_two() -> None:
    async def step(work: Work) -> Outcome:
        if work.delivery.parent_id is not None:
            return SOFT
        return FanOut(tuple(work.child(payload=bytes([n])) for n in range(3)))

    world = World(route(step=step))
    accepted = await world.submit()

    await world.run()

    assert (await world.get(accepted.id)).open_children == 3


async def test_a_failed_required_child_fails_its_parent_and_an_optional_one_does_not() -> None:
    def fanning(*, required: bool) -> Route:
        async def step(work: Work) -> Outcome:
            if work.delivery.parent_id is not None:
                return Failure("gone", "reject")
            return FanOut((work.child(payload=b"x", required=required),))

        return route(step=step)

    outcomes = {}
    for required in (True, False):
        world = World(fanning(required=required))
        accepted = await world.submit()
        await world.run()
        parent = await world.get(accepted.id)
        outcomes[required] = (parent.state, parent.failed_because)

    assert outcomes == {True: ("failed", "rejected"), False: ("delivered", None)}


async def test_i19_a_fault_of_the_route_pauses_it_and_costs_the_message_nothing() -> None:
    step = Script(FAULT)
    world = World(route(step=step))
    accepted = await world.submit()
    claimed = await world.engine.workers["event"]._claim(1)

    await world.engine.runner.run(claimed, wait=True)

    after = await world.get(accepted.id)
    assert (after.state, after.attempts_spent) == ("pending", 0)
    assert world.engine.pausing.is_paused("event")
    [fact] = await world.store.facts("paused")
    assert (fact.value or {})["reason"] == "bad credentials"
