"""Attempts and results of several saves: none takes the place of another."""

from __future__ import annotations

from msgspec.structs import replace

from homing.domain import transitions
from homing.domain.delivery import Change, Content, Delivery
from homing.ports import Added, Store
from homing.testing import samples
from homing.testing.contract.batching import PLAN, adds, next_of, puts, saves
from homing.testing.contract.opening import Opened
from homing.testing.contract.saving import one_claimed
from homing.testing.samples import NOW_MS, changed


def success(held: Delivery) -> Change:
    return transitions.succeed(held, plan=PLAN, now_ms=NOW_MS + 2, roll=0.5)


def again(end: Change) -> Change:
    """It is open again, after another attempt that failed."""
    delivery = replace(next_of(end.delivery), receipt=None, ended_at_ms=None)
    return replace(samples.retry(delivery), ended=(samples.attempt("d1", 2),))


class Ledger(Opened):
    async def test_a_success_with_results_keeps_its_attempt(self, store: Store) -> None:
        end = replace(success(await one_claimed(store)), results={"send": b"x"})

        assert await store.save([end]) == [True]

        assert await store.attempts("d1") == [*end.ended]
        assert await store.content("d1") == Content(b"hello", {"send": b"x"})

    async def test_a_success_and_what_follows_it_are_both_kept(self, store: Store) -> None:
        end = success(await one_claimed(store))
        assert await store.save([end]) == [True]

        assert await store.save([again(end)]) == [True]

        assert await store.attempts("d1") == [*end.ended, samples.attempt("d1", 2)]

    async def test_a_success_and_what_follows_it_in_one_batch(self, store: Store) -> None:
        end = success(await one_claimed(store))

        assert await puts(store, saves(end), saves(again(end))) == [[True], [True]]

        assert await store.attempts("d1") == [*end.ended, samples.attempt("d1", 2)]

    async def test_results_of_several_saves_of_one_batch(self, store: Store) -> None:
        held = await one_claimed(store)
        first = Change(changed(held), results={"one": b"1"})
        second = Change(next_of(first.delivery), results={"two": b"2"})

        assert await puts(store, saves(first), saves(second)) == [[True], [True]]

        assert await store.content("d1") == Content(b"hello", {"one": b"1", "two": b"2"})

    async def test_a_claim_brings_what_a_batch_added_and_saved(self, store: Store) -> None:
        new = samples.new("d1")
        made = Change(changed(new.delivery), results={"made": b"x"})

        assert await puts(store, adds(new), saves(made)) == [[Added("d1")], [True]]

        (claimed,) = await store.claim(samples.claim())
        assert claimed.content == Content(b"hello", {"made": b"x"})

    async def test_a_claim_brings_a_payload_that_was_replaced(self, store: Store) -> None:
        new = samples.new("d1")
        await store.add([new])
        amended = Change(changed(new.delivery, payload_no=2), payload=b"two")

        assert await store.save([amended]) == [True]

        (claimed,) = await store.claim(samples.claim())
        assert claimed.content == Content(b"two", {"payload.1": b"hello"})
