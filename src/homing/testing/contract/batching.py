"""Requests of several callers in one commit: each sees the effects of those before it."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from homing.domain import transitions
from homing.domain.delivery import Change, Content, Delivery, New, Recipient
from homing.domain.policy import Plan, Stage
from homing.domain.writes import write_of_change, write_of_new
from homing.ports import Added, Batch, Existing, PurgeRule, Put, Query, Renewal, Store
from homing.testing import samples
from homing.testing.contract.families import children_of, stored
from homing.testing.contract.opening import Opened
from homing.testing.contract.saving import one_claimed
from homing.testing.samples import LEASE_MS, NOW_MS, SOURCE, changed

PLAN = Plan(stages=(Stage(name="send"),))


def adds(*new: New) -> Put:
    return Put([write_of_new(one) for one in new])


def saves(*changes: Change) -> Put:
    return Put([write_of_change(change) for change in changes])


async def puts(store: Store, *given: Put) -> list[object]:
    """The answers of one commit."""
    return [*(await store.commit(Batch(puts=given))).puts]


def next_of(delivery: Delivery) -> Delivery:
    """As it is stored after a save."""
    return replace(delivery, version=delivery.version + 1)


def forgotten(delivery: Delivery) -> Change:
    return Change(delivery, forget=True)


class Batches(Opened):
    async def test_an_empty_batch_has_no_answers(self, store: Store) -> None:
        answers = await store.commit(Batch())
        given = answers.puts, answers.renewals, answers.purges, answers.claims
        assert not any(given)

    async def test_kinds_are_executed_in_their_order(self, store: Store) -> None:
        """A renewal finds what was added, a purge what has ended, a claim what is due."""
        held = transitions.claim(
            samples.delivery("held"), holder="w1", now_ms=NOW_MS, lease_until_ms=NOW_MS + 1
        ).delivery
        old = replace(samples.ended(samples.delivery("old")).delivery, ended_at_ms=NOW_MS - 9)
        batch = Batch(
            claims=[samples.claim("w2", at_ms=NOW_MS + 1)],
            purges=[PurgeRule(what="delivery", before_ms=NOW_MS)],
            renewals=[Renewal("w1", [("held", held.version)], NOW_MS + LEASE_MS)],
            puts=[adds(New(held), New(old), samples.new("due"))],
        )

        answers = await store.commit(batch)

        assert answers.puts == [[Added("held"), Added("old"), Added("due")]]
        assert answers.renewals == [[True]]
        assert answers.purges == [1]
        assert [c.delivery.id for c in answers.claims[0]] == ["due"]
        assert await store.get("old") is None

    async def test_the_second_of_two_claims_finds_what_the_first_left(self, store: Store) -> None:
        claims = [samples.claim("w1", limit=2), samples.claim("w2", limit=2)]
        answers = await store.commit(Batch([adds(*samples.many(3))], claims=claims))

        assert [[c.delivery.holder for c in one] for one in answers.claims] == [
            ["w1", "w1"],
            ["w2"],
        ]

    async def test_claims_alone_share_a_commit(self, store: Store) -> None:
        await store.add(samples.many(3))
        claims = [samples.claim(name, limit=2, durable=False) for name in ("w1", "w2", "w3")]
        answers = await store.commit(Batch(claims=claims))

        assert [len(one) for one in answers.claims] == [2, 1, 0]

    async def test_outcomes_and_renewals_share_a_commit(self, store: Store, other: Store) -> None:
        await store.add(samples.many(3))
        first, second, third = [c.delivery for c in await store.claim(samples.claim("w1"))]
        assert await other.save([samples.retry(second)]) == [True]
        held = [(one.id, one.version) for one in (first, second, third)]

        answers = await store.commit(
            Batch(
                [saves(samples.ended(first), samples.ended(second))],
                [Renewal("w1", held, NOW_MS + 2 * LEASE_MS)],
            )
        )

        assert answers.puts == [[True, False]]
        assert answers.renewals == [[False, False, True]]
        assert (await stored(store, first.id)).state == "delivered"
        assert (await stored(store, third.id)).due_at_ms == NOW_MS + 2 * LEASE_MS

    async def test_the_same_id_and_key_are_taken_by_the_first(self, store: Store) -> None:
        key = samples.key("k", "d1")
        answers = await puts(
            store,
            adds(samples.keyed("d1", "k", payload=b"first")),
            adds(samples.keyed("d1", "k"), samples.keyed("d2", "k"), samples.new("d1")),
        )

        assert answers == [
            [Added("d1")],
            [Existing("d1", key), Existing("d1", key), Existing("d1")],
        ]
        assert await store.content("d1") == Content(b"first")
        assert await store.count(Query()) == {(): 1}

    async def test_a_stored_key_is_named_though_the_batch_has_taken_the_id(
        self, store: Store
    ) -> None:
        await store.add([samples.keyed("d1", "k")])

        answers = await puts(
            store, adds(samples.keyed("d2", "other")), adds(samples.keyed("d2", "k"))
        )

        assert answers == [[Added("d2")], [Existing("d1", samples.key("k", "d1"))]]

    async def test_a_stored_key_is_named_though_the_batch_has_taken_another(
        self, store: Store
    ) -> None:
        """The first of its keys that is taken is named, wherever it is taken."""
        await store.add([samples.keyed("d1", "k")])
        both = [samples.key("k", "d3"), samples.key("other", "d3")]

        answers = await puts(
            store, adds(samples.keyed("d2", "other")), adds(samples.new("d3", keys=both))
        )

        assert answers == [[Added("d2")], [Existing("d1", samples.key("k", "d1"))]]

    async def test_what_a_batch_adds_it_may_save(self, store: Store) -> None:
        new = samples.keyed("d1", "k", payload=b"one", topic="paid")
        amended = Change(
            changed(new.delivery, payload_no=2),
            ended=(samples.attempt("d1"),),
            results={"send": b"x"},
            payload=b"two",
        )
        end = samples.ended(next_of(amended.delivery), "failed")

        assert await puts(store, adds(new), saves(amended), saves(end)) == [
            [Added("d1")],
            [True],
            [True],
        ]

        assert await store.get("d1") == next_of(end.delivery)
        assert await store.content("d1") == Content(b"two", {"payload.1": b"one", "send": b"x"})
        assert await store.attempts("d1") == [samples.attempt("d1")]
        assert await store.count(Query(), ("state",)) == {("failed",): 1}


class Removals(Opened):
    async def test_a_removed_id_may_be_added_again(self, store: Store) -> None:
        recipients = (Recipient("old@example.org"), Recipient("both@example.org"))
        held = await one_claimed(store, payload=b"old", recipients=recipients)
        tried = Change(held, ended=(samples.attempt("d1"),), results={"send": b"x"})
        assert await store.save([tried]) == [True]
        again = samples.keyed(
            "d1",
            "k",
            payload=b"new",
            created_at_ms=NOW_MS - 1,
            recipients=(Recipient("new@example.org"), recipients[1]),
        )

        answers = await puts(store, saves(forgotten(next_of(held))), adds(again))

        assert answers == [[True], [Added("d1")]]
        assert await store.get("d1") == again.delivery
        assert await store.content("d1") == Content(b"new")
        assert await store.attempts("d1") == []
        assert await store.count(Query()) == {(): 1}
        assert await store.count(Query(created_before_ms=NOW_MS)) == {(): 1}
        for address, number in (("old", 0), ("both", 1), ("new", 1)):
            query = Query(recipient=f"{address}@example.org")
            assert await store.count(query) == {(): number}
        assert [c.delivery.id for c in await store.claim(samples.claim("w2"))] == ["d1"]

    async def test_what_is_added_again_may_be_removed_again(self, store: Store) -> None:
        held = await one_claimed(store)
        again = samples.new("d1")

        answers = await puts(
            store, saves(forgotten(held)), adds(again), saves(forgotten(again.delivery))
        )

        assert answers == [[True], [Added("d1")], [True]]
        assert await store.get("d1") is None
        assert await store.count(Query()) == {(): 0}

    async def test_what_a_batch_adds_and_removes_leaves_its_key(self, store: Store) -> None:
        new = samples.keyed("d1", "k", facts=[samples.fact("f")])

        assert await puts(store, adds(new), saves(forgotten(new.delivery))) == [
            [Added("d1")],
            [True],
        ]

        assert await store.get("d1") is None
        assert await store.find(SOURCE, "k") == samples.key("k", "d1")
        assert await store.facts("note") == [samples.fact("f")]

    async def test_what_was_not_added_is_not_removed(self, store: Store) -> None:
        """Though nothing that the batch writes shows that the id is taken."""
        stored_one = await one_claimed(store)
        new = samples.new("d1", version=7)

        assert await puts(store, adds(new), saves(forgotten(new.delivery))) == [
            [Existing("d1")],
            [False],
        ]
        assert await store.get("d1") == stored_one


class HeldAndLost(Opened):
    async def test_a_lost_claim_takes_nothing_else_with_it(
        self, store: Store, other: Store
    ) -> None:
        await store.add(samples.many(3))
        first, second, third = [c.delivery for c in await store.claim(samples.claim("w1"))]
        assert await other.save([samples.retry(second)]) == [True]
        marked = Change(changed(first, metadata={"note": "x"}), facts=(samples.fact("1"),))
        lost = replace(samples.ended(second), facts=(samples.fact("2"),))
        gone = replace(samples.ended(third), ended=(samples.attempt(third.id),))
        of_call = Put([write_of_change(lost)], [samples.fact("3")])

        answers = await puts(store, saves(marked), of_call, saves(gone), adds(samples.new("new")))

        assert answers == [[True], [False], [True], [Added("new")]]
        assert (await stored(store, first.id)).metadata == {"note": "x"}
        assert (await stored(store, second.id)).state == "pending"
        assert (await stored(store, third.id)).state == "delivered"
        assert await store.attempts(third.id) == [samples.attempt(third.id)]
        assert await store.facts("note") == [samples.fact("1"), samples.fact("3")]

    async def test_a_lost_claim_among_held_ones_writes_nothing(
        self, store: Store, other: Store
    ) -> None:
        """Nothing but changes of what the worker holds: most batches are such."""
        await store.add([samples.keyed(one, one, key_term_s=60.0) for one in ("a", "b", "c")])
        held = [c.delivery for c in await store.claim(samples.claim("w1"))]
        assert await other.save([samples.retry(held[1])]) == [True]
        before = await stored(store, "b")
        ends = [
            replace(
                samples.ended(one, "failed"),
                ended=(samples.attempt(one.id),),
                results={"made": b"x"},
                facts=(samples.fact(one.id),),
            )
            for one in held
        ]
        last = samples.fact("of the call")

        answers = await puts(
            store, saves(ends[0]), Put([write_of_change(one) for one in ends[1:]], [last])
        )

        assert answers == [[True], [False, True]]
        assert await stored(store, "b") == before
        for name, is_kept in (("a", True), ("b", False), ("c", True)):
            assert await store.attempts(name) == [samples.attempt(name)] * is_kept
            assert (await store.content(name) or Content(b"")).results == (
                {"made": b"x"} if is_kept else {}
            )
            key = await store.find(SOURCE, name)
            assert key is not None
            assert (key.expires_at_ms is not None) is is_kept
        facts = [samples.fact("a"), samples.fact("c"), last]
        assert await store.facts("note") == facts

    @pytest.mark.parametrize("fields", [{"attempts_spent": 1}, {"topic": "paid"}])
    @pytest.mark.parametrize("parent_first", [True, False])
    async def test_a_held_parent_is_saved_beside_its_ending_child(
        self,
        store: Store,
        fields: dict[str, Any],
        parent_first: bool,  # noqa: FBT001 - a parameter of the case
    ) -> None:
        await store.add([samples.new("p", children=children_of("p", "a", "b"))])
        (held,) = [c.delivery for c in await store.claim(samples.claim("w1"))]
        assert await store.save([samples.ended(await stored(store, "b"))]) == [True]
        change = Change(changed(held, **fields))
        end = saves(samples.ended(await stored(store, "a")))

        given = [saves(change), end] if parent_first else [end, saves(change)]
        assert await puts(store, *given) == [[True], [True]]

        assert await stored(store, "p") == replace(next_of(change.delivery), open_children=0)

    async def test_a_mark_and_a_fan_out_of_one_delivery(self, store: Store) -> None:
        """The first can be written without a look, the second cannot."""
        held = await one_claimed(store, "p")
        mark = transitions.mark_committing(held, now_ms=NOW_MS + 1, frozen={})
        waits = samples.waiting(next_of(mark.delivery), children_of("p", "a"))

        assert await puts(store, saves(mark), saves(waits)) == [[True], [True]]

        parent = await stored(store, "p")
        assert (parent.open_children, parent.due_at_ms) == (1, None)
        assert parent.version == held.version + 2

    async def test_a_mark_and_the_outcome_of_one_delivery(self, store: Store) -> None:
        held = await one_claimed(store)
        mark = transitions.mark_committing(held, now_ms=NOW_MS + 1, frozen={})
        end = transitions.succeed(next_of(mark.delivery), plan=PLAN, now_ms=NOW_MS + 2, roll=0.5)

        assert await puts(store, saves(mark), saves(end)) == [[True], [True]]

        assert await store.get("d1") == next_of(end.delivery)
        assert await store.attempts("d1") == [*end.ended]

    async def test_a_count_beside_a_lost_save_leaves_the_attempts(self, store: Store) -> None:
        """The parent is read for the save, and nothing of it changes but its counter."""
        await store.add([samples.new("p", children=children_of("p", "a"))])
        (held,) = [c.delivery for c in await store.claim(samples.claim("w1"))]
        end = transitions.succeed(held, plan=PLAN, now_ms=NOW_MS + 2, roll=0.5)
        assert await store.save([end]) == [True]

        lost, ends = samples.retry(held), samples.ended(await stored(store, "a"))
        assert await puts(store, saves(lost), saves(ends)) == [[False], [True]]

        assert await stored(store, "p") == replace(next_of(end.delivery), open_children=0)
        assert await store.attempts("p") == [*end.ended]
