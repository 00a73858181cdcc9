"""The term of a key begins when its delivery ends: an open delivery never loses its key (I3)."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from homing.domain.delivery import New
from homing.ports import Added, Existing, Store
from homing.testing import samples
from homing.testing.contract.batching import adds, puts, saves
from homing.testing.contract.opening import Opened
from homing.testing.samples import NOW_MS, SOURCE

TERM_S = 60.0
TERM_MS = 60_000


def with_term(delivery_id: str, **fields: Any) -> New:
    return samples.keyed(delivery_id, "k", key_term_s=TERM_S, **fields)


async def expiry(store: Store, name: str = "k") -> int | None:
    key = await store.find(SOURCE, name)
    assert key is not None
    return key.expires_at_ms


class Terms(Opened):
    async def test_an_open_delivery_keeps_its_key_however_long_it_takes_i3(
        self, store: Store
    ) -> None:
        first = with_term("d1")
        await store.add([first])
        late = with_term("d2", created_at_ms=NOW_MS + 1000 * TERM_MS)

        assert await store.add([late]) == [Existing("d1", first.keys[0])]

    async def test_the_term_begins_at_the_end(self, store: Store) -> None:
        new = with_term("d1")
        await store.add([new])

        await store.save([samples.ended(new.delivery, at_ms=NOW_MS + 5)])

        assert await expiry(store) == NOW_MS + 5 + TERM_MS
        too_early = with_term("d2", created_at_ms=NOW_MS + 4 + TERM_MS)
        in_time = with_term("d3", created_at_ms=NOW_MS + 5 + TERM_MS)
        [existing, added] = await store.add([too_early, in_time])
        assert (existing.delivery_id, added) == ("d1", Added("d3"))

    async def test_the_term_begins_at_the_end_of_claimed_work(self, store: Store) -> None:
        await store.add([with_term("d1")])
        (claimed,) = await store.claim(samples.claim())

        assert await store.save([samples.ended(claimed.delivery, at_ms=NOW_MS + 5)]) == [True]

        assert await expiry(store) == NOW_MS + 5 + TERM_MS

    async def test_the_term_begins_in_the_batch_that_adds(self, store: Store) -> None:
        new = with_term("d1")
        end = samples.ended(new.delivery, at_ms=NOW_MS + 5)

        assert await puts(store, adds(new), saves(end)) == [[Added("d1")], [True]]

        assert await expiry(store) == NOW_MS + 5 + TERM_MS

    async def test_what_ended_before_it_was_added_has_its_term_at_once(self, store: Store) -> None:
        """Suppressed at intake: no change will ever come."""
        other = samples.key("of the intent", "d1")
        new = with_term("d1", state="suppressed", due_at_ms=None, ended_at_ms=NOW_MS)

        await store.add([replace(new, keys=(*new.keys, other))])

        assert await expiry(store) == NOW_MS + TERM_MS
        assert await expiry(store, "of the intent") is None

    async def test_what_is_forgotten_leaves_its_key_for_the_term(self, store: Store) -> None:
        new = with_term("d1")
        await store.add([new])

        await store.save([replace(samples.ended(new.delivery), forget=True)])

        assert await store.get("d1") is None
        assert await expiry(store) == NOW_MS + TERM_MS

    async def test_opened_again_it_has_no_term(self, store: Store) -> None:
        new = with_term("d1")
        await store.add([new])
        ended = samples.ended(new.delivery, "failed")
        await store.save([ended])
        again = replace(ended.delivery, version=2, ended_at_ms=None)

        await store.save([replace(samples.retry(again), reopens=True)])

        assert await store.find(SOURCE, "k") == new.keys[0]

    async def test_a_key_that_stands_for_another_is_left_alone(self, store: Store) -> None:
        old = with_term("d1")
        await store.add([old])
        await store.save([samples.ended(old.delivery, "failed")])
        later = with_term("d2", created_at_ms=NOW_MS + TERM_MS)
        assert await store.add([later]) == [Added("d2")]

        again = replace(old.delivery, version=2)
        await store.save([replace(samples.retry(again), reopens=True)])
        await store.save([samples.ended(replace(again, version=3), at_ms=NOW_MS + 9 * TERM_MS)])

        assert await store.find(SOURCE, "k") == later.keys[0]

    async def test_a_key_without_a_term_is_for_ever(self, store: Store) -> None:
        new = samples.keyed("d1", "k")
        await store.add([new])

        await store.save([samples.ended(new.delivery)])

        assert await expiry(store) is None

    async def test_a_lost_end_begins_no_term(self, store: Store) -> None:
        new = with_term("d1")
        await store.add([new])

        await store.save([samples.ended(replace(new.delivery, version=9))])

        assert await expiry(store) is None

    async def test_a_child_does_not_own_the_key_that_it_shows(self, store: Store) -> None:
        child = samples.child("a", "p", key="k", key_term_s=TERM_S)
        await store.add([with_term("p", state="waiting", due_at_ms=None, children=[child])])

        await store.save([samples.ended(child.delivery)])

        assert await expiry(store) is None
