"""The send step: frozen bytes, the durable mark between prepare and commit, and who may stop it."""

from __future__ import annotations

from msgspec.structs import replace

from homing.domain.delivery import Content, Delivery, Fact, Receipt
from homing.domain.failure import Failure, Refusal
from homing.domain.message import Email
from homing.domain.policy import Stage
from homing.engine.route import judge_as_is
from homing.engine.work.steps import SendStep, refuse
from homing.ports import Accepted, Answers, Batch, Envelope, Ready
from homing.stores.memory import MemoryStore
from homing.testing.clocks import ManualClock
from tests.unit.engine.providers import Provider, sending
from tests.unit.engine.world import World, saved

LOST = Failure("answer_lost", maybe_sent=True)
SOFT = Failure("deferred", code="451")


async def test_the_mark_is_durable_before_the_first_byte_is_out() -> None:
    class Curious(Provider):
        async def take(self, envelope: Envelope) -> Accepted | Failure:
            stored = await world.get(envelope.delivery_id)
            content = await world.store.content(envelope.delivery_id)
            assert content is not None
            seen.append((stored.committing, content.results["frozen"] == envelope.data))
            return await super().take(envelope)

    seen: list[tuple[bool, bool]] = []
    world = World(sending(Curious()))
    await world.submit()

    await world.run()

    assert seen == [(True, True)]


async def test_i11_who_has_lost_its_claim_does_not_send() -> None:
    class Slow(Provider):
        async def prepare(self, envelope: Envelope) -> Ready | Failure:
            await world.crash_of_another(envelope.delivery_id)
            return await super().prepare(envelope)

    provider = Slow()
    world = World(sending(provider))
    accepted = await world.submit()

    [held] = await world.engine.workers["mail"]._claim(1)
    await world.engine.runner.run([held], wait=True)
    assert held.settled is None

    assert (provider.sent, provider.abandoned) == ([], 1)
    stored = await world.get(accepted.id)
    assert (stored.state, stored.committing, stored.holder) == ("in_flight", False, "gone")
    assert world.engine.saves.lost_claims == 1


async def test_i12_no_commit_starts_that_might_outlast_its_lease() -> None:
    class SlowStore(MemoryStore):
        async def commit(self, batch: Batch) -> Answers:
            if any(delivery.committing for delivery in saved(batch)):
                clock.advance(world.route.lease_s / 2)
            return await super().commit(batch)

    clock, provider = ManualClock(), Provider()
    world = World(sending(provider), store=SlowStore(), clock=clock)
    await world.submit()

    [held] = await world.engine.workers["mail"]._claim(1)
    await world.engine.runner.run([held], wait=True)

    assert (provider.sent, provider.abandoned) == ([], 1)


async def test_p8_what_an_earlier_owner_learns_in_the_last_moment_still_counts() -> None:
    class Slow(Provider):
        async def prepare(self, envelope: Envelope) -> Ready | Failure:
            value = {"status": "done", "stage": "send", "notification_id": "n-9"}
            fact = Fact("late_outcome", f"{envelope.delivery_id}/1", world.now_ms, dict(value))
            await world.store.save([], [fact])
            return await super().prepare(envelope)

    provider = Slow()
    world = World(sending(provider))
    accepted = await world.submit()
    await world.crash_of_another(accepted.id, committing=True)

    await world.run(after_s=1)

    after = await world.get(accepted.id)
    assert (provider.sent, provider.abandoned, after.state) == ([], 1, "delivered")
    assert after.receipt == Receipt("n-9", world.now_ms, "late")


async def test_only_the_open_recipients_are_sent_to() -> None:
    put_off = {"bob@example.org": Refusal(permanent=False, code="451")}
    provider = Provider(Accepted(Receipt("n-1"), put_off))
    world = World(sending(provider))
    accepted = await world.submit(message=Email(to=["ann@example.org", "bob@example.org"]))

    await world.run()
    await world.run(after_s=60)

    assert [envelope.recipients for envelope in provider.sent] == [
        ("ann@example.org", "bob@example.org"),
        ("bob@example.org",),
    ]
    assert (await world.get(accepted.id)).state == "delivered"


async def test_a_possible_duplicate_may_carry_a_notice_and_nothing_else_does() -> None:
    provider = Provider(SOFT, LOST)
    step = SendStep(
        provider,
        lambda delivery, content: b"hello",
        sender="shop@example.org",
        compose_duplicate=lambda delivery, content: b"maybe again: hello",
    )
    world = World(sending(provider, step=step))
    await world.submit()

    for _ in range(3):
        await world.run(after_s=60)

    assert [envelope.data for envelope in provider.sent] == [
        b"hello",
        b"hello",
        b"maybe again: hello",
    ]
    assert {envelope.sender for envelope in provider.sent} == {"shop@example.org"}


async def test_what_cannot_be_built_is_refused_before_any_provider_is_asked() -> None:
    def freeze(delivery: Delivery, content: Content) -> bytes | Failure:
        return refuse("render_failed", "no variable 'name' for ann@example.org")

    provider = Provider()
    world = World(sending(provider, step=SendStep(provider, freeze)))
    accepted = await world.submit()

    await world.run()

    after = await world.get(accepted.id)
    assert (after.state, after.failed_because, provider.sent) == ("failed", "rejected", [])
    assert after.failure is not None
    assert after.failure.detail == "no variable 'name' for [address]"


async def test_a_failure_of_the_preparation_leaves_no_doubt() -> None:
    class Refusing(Provider):
        async def prepare(self, envelope: Envelope) -> Ready | Failure:
            return SOFT

    world = World(sending(Refusing()))
    accepted = await world.submit()

    await world.run()

    after = await world.get(accepted.id)
    assert (after.state, after.maybe_sent, after.committed_at_ms) == ("pending", False, None)


async def test_a_commit_that_breaks_leaves_doubt() -> None:
    class Breaking(Provider):
        async def take(self, envelope: Envelope) -> Accepted | Failure:
            raise ConnectionResetError("cut")

    world = World(sending(Breaking(), on_unknown="hold"))
    accepted = await world.submit()

    await world.run()

    assert (await world.get(accepted.id)).maybe_sent


async def test_a_route_may_judge_failures_and_refusals_by_its_own_table() -> None:
    def harsh(problem: Exception | Failure, stage: Stage) -> Failure:
        return replace(judge_as_is(problem, stage), disposition="reject")

    provider = Provider(SOFT)
    world = World(replace(sending(provider), judge=harsh))
    accepted = await world.submit()

    await world.run()

    assert (await world.get(accepted.id)).failed_because == "rejected"
