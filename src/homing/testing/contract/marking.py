"""Marks: however a store writes the mark alone, it is read back like any other change."""

from __future__ import annotations

from msgspec.structs import replace

from homing.domain import transitions
from homing.domain.delivery import Content, Delivery
from homing.ports import Query, Store
from homing.testing import samples
from homing.testing.contract.opening import Opened
from homing.testing.samples import LEASE_MS, NOW_MS

FROZEN = {"frozen": b"From: \xff\x00\r\n"}


async def held(store: Store, number: int = 1) -> list[Delivery]:
    await store.add(samples.many(number))
    return [claimed.delivery for claimed in await store.claim(samples.claim("w1", limit=number))]


class Marking(Opened):
    async def test_a_mark_is_read_back_by_every_way_i12(self, store: Store) -> None:
        [before] = await held(store)
        change = transitions.mark_committing(before, now_ms=NOW_MS + 5, frozen=FROZEN)

        assert await store.save([change]) == [True]

        marked = replace(change.delivery, version=before.version + 1)
        assert (marked.committing, marked.committed_at_ms) == (True, NOW_MS + 5)
        assert await store.get(before.id) == marked
        assert (await store.page(Query())).items == (marked,)
        content = await store.content(before.id)
        assert content is not None
        assert content.results == FROZEN

    async def test_the_next_owner_finds_the_mark_and_what_was_frozen(self, store: Store) -> None:
        [before] = await held(store)
        change = transitions.mark_committing(before, now_ms=NOW_MS + 5, frozen=FROZEN)
        await store.save([change])

        claims = [samples.claim(name, at_ms=NOW_MS + nth * LEASE_MS) for nth, name in HEIRS]
        for nth, claim in enumerate(claims, start=2):
            (claimed,) = await store.claim(claim)
            after = claimed.delivery
            assert (after.committing, after.committed_at_ms) == (True, NOW_MS + 5)
            assert (after.unsettled_claims, after.holder) == (nth, claim.worker)
            assert claimed.content == Content(b"hello", FROZEN)

    async def test_an_earlier_mark_keeps_its_time(self, store: Store) -> None:
        [before] = await held(store)
        first = transitions.mark_committing(before, now_ms=NOW_MS + 5, frozen={})
        await store.save([first])
        marked = replace(first.delivery, version=before.version + 1)
        again = transitions.mark_committing(marked, now_ms=NOW_MS + 9, frozen={})

        assert await store.save([again]) == [True]

        stored = await store.get(before.id)
        assert stored == replace(again.delivery, version=before.version + 2)
        assert stored is not None
        assert (stored.committed_at_ms, stored.updated_at_ms) == (NOW_MS + 5, NOW_MS + 9)

    async def test_writing_the_record_again_ends_the_mark(self, store: Store) -> None:
        [before] = await held(store)
        change = transitions.mark_committing(before, now_ms=NOW_MS + 5, frozen=FROZEN)
        await store.save([change])
        marked = replace(change.delivery, version=before.version + 1)
        ended = samples.ended(replace(marked, committing=False), at_ms=NOW_MS + 9)

        assert await store.save([ended]) == [True]

        assert await store.get(before.id) == replace(ended.delivery, version=before.version + 2)

    async def test_a_mark_leaves_the_lease_as_it_is(self, store: Store) -> None:
        [before] = await held(store)
        longer_ms = NOW_MS + 3 * LEASE_MS
        assert await store.renew("w1", [(before.id, before.version)], longer_ms) == [True]
        leased = replace(before, due_at_ms=longer_ms)
        await store.save([transitions.mark_committing(leased, now_ms=NOW_MS + 5, frozen={})])

        assert await store.claim(samples.claim("w2", at_ms=NOW_MS + 2 * LEASE_MS)) == []

    async def test_lost_and_kept_marks_and_other_changes_in_one_call_i11(
        self, store: Store
    ) -> None:
        first, second, third, fourth = await held(store, 4)
        await store.save([samples.ended(second)])
        marks = {
            one.id: transitions.mark_committing(one, now_ms=NOW_MS + 5, frozen=FROZEN)
            for one in (first, second, fourth)
        }

        saved = await store.save(
            [marks[first.id], marks[second.id], samples.ended(third), marks[fourth.id]]
        )

        assert saved == [True, False, True, True]
        lost = await store.content(second.id)
        assert lost is not None
        assert lost.results == {}
        states = [await store.get(one.id) for one in (first, second, third, fourth)]
        assert [one and (one.state, one.committing) for one in states] == [
            ("in_flight", True),
            ("delivered", False),
            ("delivered", False),
            ("in_flight", True),
        ]

    async def test_a_mark_and_its_outcome_in_one_call_are_written_in_turn(
        self, store: Store
    ) -> None:
        [before] = await held(store)
        change = transitions.mark_committing(before, now_ms=NOW_MS + 5, frozen={})
        marked = replace(change.delivery, version=before.version + 1)
        ended = samples.ended(replace(marked, committing=False), at_ms=NOW_MS + 9)

        assert await store.save([change, ended]) == [True, True]

        assert await store.get(before.id) == replace(ended.delivery, version=before.version + 2)


HEIRS = ((1, "w2"), (2, "w3"))
