"""Verbs on deliveries with children: all of them are saved, audited and told to observers."""

from __future__ import annotations

from collections import defaultdict, deque
from typing import Any

import pytest

from homing.domain.delivery import Change, Delivery, Fact, FactValue, Receipt
from homing.domain.errors import NotAllowed
from homing.domain.failure import Failure
from homing.domain.identity import provider_token
from homing.domain.message import Event, decode_message, encode_message
from homing.engine.work import family
from homing.ports import (
    Absent,
    Accepted,
    Answers,
    Batch,
    Done,
    Envelope,
    FanOut,
    Found,
    Outcome,
    Query,
    Work,
)
from homing.stores.memory import MemoryStore
from tests.unit.engine.providers import Looking, Provider, sending
from tests.unit.engine.world import World, route, saved

HARD = Failure("gone", "reject", detail="no such mailbox")
SOFT = Failure("deferred", code="451")
LOST = Failure("answer_lost", maybe_sent=True)
HELD = Failure("answer_lost", "reject", maybe_sent=True)
WHY: dict[str, Any] = {"actor": "ann", "reason": "provider is back"}


def of_parts(*parts: str) -> Event:
    return Event("paid", {"parts": list(parts)})


class Family(World):
    """An event becomes a child for each of its parts; `answers` are those to a part, in turn."""

    def __init__(self, answers: dict[str, list[Outcome]], **words: Any) -> None:
        self.answers = defaultdict(deque, {part: deque(many) for part, many in answers.items()})
        self.tried: list[str] = []
        super().__init__(route(step=self.step), **words)

    async def step(self, work: Work) -> Outcome:
        if work.delivery.parent_id is None:
            message = decode_message(work.content.payload)
            assert isinstance(message, Event)
            return FanOut(
                tuple(
                    work.child(payload=part.encode(), topic=part) for part in message.data["parts"]
                )
            )
        part = work.delivery.topic or ""
        self.tried.append(part)
        return self.answers[part].popleft() if self.answers[part] else Done()

    async def begin(self, *parts: str) -> Delivery:
        accepted = await self.submit(message=of_parts(*parts))
        await self.run()
        return await self.get(accepted.id)

    async def children(self, parent: Delivery) -> dict[str, Delivery]:
        """By part; of several for one part, the newest."""
        page = await self.store.page(Query(parent_id=parent.id), limit=1000)
        return {child.topic or "": child for child in reversed(page.items)}

    async def states(self, parent: Delivery) -> dict[str, str]:
        return {part: child.state for part, child in (await self.children(parent)).items()}

    def told_of(self, verb: str) -> set[str]:
        return {event.delivery.id for event in self.told if event.name == verb}


class Overtaken(MemoryStore):
    """Another process changes the first delivery of the next save in between."""

    overtake = False
    saves: list[int]

    async def commit(self, batch: Batch) -> Answers:
        deliveries = saved(batch)
        if batch.puts:
            self.saves = [*getattr(self, "saves", []), len(deliveries)]
        if self.overtake and deliveries:
            self.overtake = False
            stored = self.disk.deliveries[deliveries[0].id]
            await self.save([Change(stored)])
            self.saves.pop()
        return await super().commit(batch)


async def test_children_that_are_replayed_with_their_parent_are_audited_and_told() -> None:
    world = Family({"a": [HARD], "b": [HARD]})
    parent = await world.begin("a", "b", "c")
    children = await world.children(parent)

    await world.engine.ops.replay(parent.id, **WHY)

    failed = {children["a"].id, children["b"].id}
    assert world.told_of("replay") == {*failed, parent.id}
    for child_id in failed:
        [fact] = await world.engine.ops.audit(child_id)
        assert fact.value == {"verb": "replay", **WHY, "was": "failed", "parent": parent.id}
    await world.run()
    assert (await world.get(parent.id)).state == "delivered"
    assert sorted(world.tried) == ["a", "a", "b", "b", "c"]


@pytest.mark.parametrize("verb", ["replay", "restart"])
async def test_a_child_that_another_changes_in_between_is_replayed_all_the_same(verb: str) -> None:
    store = Overtaken()
    world = Family({"a": [HARD], "b": [HARD]}, store=store)
    parent = await world.begin("a", "b")

    store.overtake = True
    await getattr(world.engine.ops, verb)(parent.id, **WHY)

    assert await world.states(parent) == {"a": "pending", "b": "pending"}
    await world.run()
    assert (await world.get(parent.id)).state == "delivered"


async def test_a_large_family_takes_one_save_for_each_page(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(family, "CHILDREN_A_PAGE", 2)
    parts = ["a", "b", "c", "d", "e"]
    store = Overtaken()
    world = Family({part: [HARD] for part in parts}, store=store)
    parent = await world.begin(*parts)

    store.saves = []
    await world.engine.ops.replay(parent.id, **WHY)

    assert store.saves == [2, 2, 1, 1]
    await world.run()
    assert (await world.get(parent.id)).state == "delivered"


async def test_two_clicks_on_a_parent_replay_each_child_once() -> None:
    world = Family({"a": [HARD]})
    parent = await world.begin("a")
    await world.engine.ops.replay(parent.id, cycle=1, **WHY)

    with pytest.raises(NotAllowed):
        await world.engine.ops.replay(parent.id, cycle=1, **WHY)

    assert (await world.children(parent))["a"].cycle == 2


async def test_cancelling_a_waiting_parent_cancels_its_open_children() -> None:
    world = Family({"a": [SOFT], "b": [SOFT], "c": [LOST], "d": [Done()]})
    parent = await world.begin("a", "b", "c", "d")
    in_flight = (await world.children(parent))["b"]
    await world.crash_of_another(in_flight.id)
    assert (await world.get(parent.id)).state == "waiting"

    cancelled = await world.engine.ops.cancel(parent.id, **WHY)

    assert cancelled.state == "dismissed"
    children = await world.children(parent)
    # What may have been sent is never called cancelled, and a worker may be sending b just now.
    assert {part: (c.state, c.failed_because) for part, c in children.items()} == {
        "a": ("dismissed", None),
        "b": ("in_flight", None),
        "c": ("failed", "uncertain"),
        "d": ("delivered", None),
    }
    assert world.told_of("cancel") == {parent.id, children["a"].id, children["c"].id}
    [fact] = await world.engine.ops.audit(children["a"].id)
    assert (fact.value or {})["verb"] == "cancel"
    assert await world.run(after_s=3600) == 1
    assert (await world.get(parent.id)).state == "dismissed"


async def test_a_small_family_is_cancelled_in_one_save() -> None:
    store = Overtaken()
    world = Family({"a": [SOFT], "b": [SOFT]}, store=store)
    parent = await world.begin("a", "b")

    store.saves = []
    await world.engine.ops.cancel(parent.id, **WHY)

    assert store.saves == [3]


async def test_a_large_family_is_cancelled_page_by_page(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(family, "CHILDREN_A_PAGE", 2)
    parts = ["a", "b", "c", "d", "e"]
    world = Family({part: [SOFT] for part in parts})
    parent = await world.begin(*parts)

    await world.engine.ops.cancel(parent.id, **WHY)

    assert set((await world.states(parent)).values()) == {"dismissed"}
    assert (await world.get(parent.id)).open_children == 0


async def test_restoring_a_cancelled_parent_restores_what_was_cancelled_with_it() -> None:
    world = Family({"a": [SOFT], "b": [SOFT]})
    parent = await world.begin("a", "b")
    children = await world.children(parent)
    await world.engine.ops.cancel(children["b"].id, **WHY)
    world.clock.advance(1)
    await world.engine.ops.cancel(parent.id, **WHY)
    world.clock.advance(1)

    await world.engine.ops.restore(parent.id, **WHY)

    assert await world.states(parent) == {"a": "pending", "b": "dismissed"}
    assert (await world.get(parent.id)).state == "waiting", "as it was when it was cancelled"
    await world.run(after_s=60)
    assert world.tried.count("a") == 2
    # The one that was cancelled by itself is still missing, and a person is told so.
    assert (await world.get(parent.id)).state == "failed"


async def test_an_amended_parent_runs_the_new_payload_alone() -> None:
    world = Family({"a": [HARD], "b": [HARD, Done()]})
    parent = await world.begin("a", "b", "same")
    before = await world.children(parent)
    ops = world.engine.ops

    await ops.amend(parent.id, encode_message(of_parts("b", "same")), **WHY)
    await ops.replay(parent.id, **WHY)
    await world.run()

    # "a" is not asked for any more; "same" is, and an equal child of before does not stand for it.
    assert world.tried.count("a") == 1
    assert (world.tried.count("b"), world.tried.count("same")) == (2, 2)
    assert (await world.get(parent.id)).state == "delivered"
    assert (await world.get(before["a"].id)).state == "dismissed"
    after = await world.children(parent)
    assert after["same"].id != before["same"].id
    assert (after["same"].parent_payload_no, before["same"].parent_payload_no) == (2, 1)


async def test_an_amended_parent_fails_by_its_new_children_and_replays_those_alone() -> None:
    world = Family({"a": [HARD], "b": [HARD, Done()]})
    parent = await world.begin("a")
    ops = world.engine.ops
    await ops.amend(parent.id, encode_message(of_parts("b")), **WHY)
    await ops.replay(parent.id, **WHY)
    await world.run()
    assert (await world.get(parent.id)).failed_because == "rejected"

    await ops.replay(parent.id, **WHY)
    await world.run()

    assert world.tried == ["a", "b", "b"]
    assert (await world.get(parent.id)).state == "delivered"


async def test_a_parent_amended_while_its_children_are_open_withdraws_them() -> None:
    world = Family({"a": [HARD, SOFT]})
    parent = await world.begin("a")
    ops = world.engine.ops
    await ops.replay(parent.id, **WHY)

    await ops.amend(parent.id, encode_message(of_parts("b")), **WHY)
    assert await world.states(parent) == {"a": "dismissed"}
    await world.run(after_s=3600)

    assert world.tried == ["a", "b"]
    assert (await world.get(parent.id)).state == "delivered"


async def test_a_child_of_an_earlier_payload_does_not_wake_its_parent() -> None:
    world = Family({"a": [HARD, Done()], "b": [HARD]})
    parent = await world.begin("a")
    ops = world.engine.ops
    old = (await world.children(parent))["a"]
    await ops.amend(parent.id, encode_message(of_parts("b")), **WHY)
    await ops.replay(parent.id, **WHY)
    await world.run()
    await ops.restore(old.id, **WHY)
    before = await world.get(parent.id)

    await ops.replay(old.id, **WHY)
    await world.run()

    assert (await world.get(old.id)).state == "delivered"
    after = await world.get(parent.id)
    assert (after.state, after.cycle) == ("failed", before.cycle)


class Folding(Provider):
    """Takes every token once, as a provider with idempotency keys does."""

    def __init__(self, *answers: Accepted | Failure) -> None:
        super().__init__(*answers, token_window_s=3600.0)
        self.kept: dict[str, bytes] = {}

    async def take(self, envelope: Envelope) -> Accepted | Failure:
        self.kept.setdefault(envelope.token, envelope.data)
        return await super().take(envelope)


async def test_an_uncertain_one_that_is_amended_really_sends_the_new_text() -> None:
    provider = Folding(HELD)
    world = World(sending(provider))
    accepted = await world.submit()
    await world.run()
    assert (await world.get(accepted.id)).failed_because == "uncertain"

    await world.engine.ops.amend(accepted.id, b"corrected", **WHY)
    await world.engine.ops.replay(accepted.id, **WHY)
    await world.run()

    after = await world.get(accepted.id)
    assert (after.state, after.maybe_duplicate) == ("delivered", True)
    assert list(provider.kept.values())[1:] == [b"corrected"]


async def test_evidence_on_the_old_text_does_not_settle_the_amended_one() -> None:
    provider = Looking(HELD, HARD, says=Found(Receipt("n-7", evidence="lookup")))
    world = World(sending(provider, on_unknown="hold"))
    accepted = await world.submit()
    await world.run()
    late: FactValue = {"status": "done", "stage": "send", "notification_id": "n-9"}
    fact = Fact("late_outcome", f"{accepted.id}/1", world.now_ms, late)
    await world.store.save([], [fact])

    await world.engine.ops.amend(accepted.id, b"corrected", **WHY)
    await world.engine.ops.replay(accepted.id, **WHY)
    await world.run()

    # The amended text was refused, but the old one may have arrived.
    after = await world.get(accepted.id)
    assert (after.state, after.failed_because) == ("failed", "uncertain")
    assert [envelope.data for envelope in provider.sent][1:] == [b"corrected"]
    assert provider_token(accepted) not in provider.asked


async def test_a_late_answer_to_the_old_text_does_not_settle_a_doubt_about_the_new_one() -> None:
    provider = Looking(HELD, LOST, says=Absent())
    world = World(sending(provider))
    accepted = await world.submit()
    await world.run()
    await world.engine.ops.amend(accepted.id, b"corrected", **WHY)
    await world.engine.ops.replay(accepted.id, **WHY)
    await world.run()
    late: FactValue = {"status": "done", "stage": "send", "notification_id": "n-9", "payload_no": 1}
    fact = Fact("late_outcome", f"{accepted.id}/1", world.now_ms, late)
    await world.store.save([], [fact])

    await world.run(after_s=60)

    assert [envelope.data for envelope in provider.sent][1:] == [b"corrected"] * 2
    assert (await world.get(accepted.id)).state == "delivered"
