"""Records of a foreign RecordLayout: always what it says of what is stored, in the same commit."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest
import pytest_asyncio
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from homing.domain.delivery import Change, Fact
from homing.domain.failure import Failure
from homing.domain.policy import Retention
from homing.ports import PurgeRule, Seen, Showing, Store
from homing.stores.layout import Stored, iso_utc
from homing.testing import samples
from homing.testing.contract.events import Event
from homing.testing.contract.foreign import FOREIGN, foreign_projection
from homing.testing.contract.generated import EXAMPLES
from homing.testing.contract.histories import events
from homing.testing.contract.history import SLOTS, History
from homing.testing.contract.opening import Opener
from homing.testing.samples import LEASE_MS, NOW_MS, SOURCE

KEPT = Retention(delivered_s=10.0, failed_s=20.0, attempts_s=30.0, dead_letter_s=40.0)


async def seen(store: Store, key: str) -> Seen | None:
    assert isinstance(store, Showing)
    return await store.shown(key)


async def record(store: Store, key: str) -> dict[str, Any] | None:
    found = await seen(store, key)
    return None if found is None else msgspec.json.decode(found.data)


async def under(store: Store, name: str) -> list[str]:
    assert isinstance(store, Showing)
    return await store.shown_under(name)


async def is_true(store: Store, delivery_id: str) -> bool:
    """What is shown of a delivery is what the RecordLayout makes of what is stored."""
    delivery, content = await store.get(delivery_id), await store.content(delivery_id)
    shown = await record(store, f"queue/{delivery_id}")
    if delivery is None or content is None:
        return shown is None
    expected = FOREIGN.record(Stored(delivery, content))
    if expected is not None and shown is not None and content.payload == b"":
        # The payload has been purged, and what was shown of it stays.
        expected["text"] = shown["text"]
    return shown == expected


class ShowingContract:
    """For stores that are `Showing`; the opener's stores show nothing by themselves."""

    @pytest_asyncio.fixture
    async def store(self, opener: Opener) -> AsyncIterator[Store]:
        yield await self._open(opener, Retention.forever())
        await opener.close_all()

    @pytest_asyncio.fixture
    async def keeping(self, store: Store, opener: Opener) -> Store:
        """A handle on the same data whose records have an end."""
        del store
        return await self._open(opener, KEPT)

    @staticmethod
    async def _open(opener: Opener, retention: Retention) -> Store:
        store = await opener.open()
        assert isinstance(store, Showing)
        store.show(foreign_projection(retention))
        return store

    async def test_what_is_added_is_shown_under_its_names(self, store: Store) -> None:
        await store.add([samples.new("d1")])

        assert await is_true(store, "d1")
        shown = await record(store, "queue/d1")
        assert shown is not None
        assert tuple(shown) == FOREIGN.fields
        assert (shown["status"], shown["next_try"]) == ("QUEUED", iso_utc(NOW_MS))
        assert await under(store, "status/QUEUED") == ["queue/d1"]
        assert await under(store, f"source/{SOURCE}") == ["queue/d1"]

    async def test_what_is_refused_is_not_shown(self, store: Store) -> None:
        await store.add([samples.keyed("d1", "k")])

        await store.add([samples.keyed("d2", "k"), samples.new("d1", attempts_spent=7)])

        assert await record(store, "queue/d2") is None
        assert await is_true(store, "d1")
        assert await record(store, f"keys/{SOURCE}/k") == {"of": "d1", "until": None}

    async def test_children_are_shown_with_their_parent(self, store: Store) -> None:
        children = [samples.child("a", "p"), samples.child("d1", "p")]
        await store.add([samples.new("d1"), samples.new("p", state="waiting", children=children)])

        for delivery_id in ("d1", "p", "a"):
            assert await is_true(store, delivery_id)

    async def test_a_claim_shows_its_time_and_moves_the_record(self, store: Store) -> None:
        await store.add(samples.many(2))

        for at_ms in (NOW_MS + 7, NOW_MS + 7 + LEASE_MS):
            await store.claim(samples.claim(at_ms=at_ms))

            shown = await record(store, "queue/d00000")
            assert shown is not None
            assert shown["status"] == "RUNNING"
            assert (shown["running_since"], shown["running_since_ms"]) == (iso_utc(at_ms), at_ms)
            assert await is_true(store, "d00000")
            assert await is_true(store, "d00001")
        assert await under(store, "status/QUEUED") == []
        assert await under(store, "status/RUNNING") == ["queue/d00000", "queue/d00001"]

    async def test_a_longer_lease_is_not_shown(self, store: Store) -> None:
        await store.add([samples.new("d1")])
        (held,) = await store.claim(samples.claim())
        before = await seen(store, "queue/d1")

        await store.renew("w1", [("d1", held.delivery.version)], NOW_MS + 9 * LEASE_MS)

        assert await seen(store, "queue/d1") == before
        assert await is_true(store, "d1")

    async def test_a_change_shows_what_it_changes_and_keeps_the_rest(self, store: Store) -> None:
        await store.add([samples.new("d1")])
        (held,) = await store.claim(samples.claim())
        retry = samples.retry(replace(held.delivery, attempts_spent=1), due_at_ms=NOW_MS + 5)

        await store.save([replace(retry, ended=(samples.attempt("d1"),))])

        assert await is_true(store, "d1")
        assert await under(store, "status/RETRYING") == ["queue/d1"]
        assert await under(store, "status/RUNNING") == []
        assert await record(store, "tries/d1/1") == {"try": 1, "outcome": "FAILED"}

    async def test_an_amended_payload_is_shown(self, store: Store) -> None:
        await store.add([samples.new("d1")])

        await store.save([Change(samples.delivery("d1", payload_no=2), payload=b"other")])

        assert await is_true(store, "d1")

    async def test_a_lost_change_shows_nothing(self, store: Store) -> None:
        await store.add([samples.keyed("d1", "k", key_term_s=60.0)])
        stale = samples.ended(samples.delivery("d1", version=9, key="k", key_term_s=60.0), "failed")
        stale = replace(stale, ended=(samples.attempt("d1"),), payload=b"other")

        assert await store.save([stale, replace(stale, forget=True)]) == [False, False]

        assert await is_true(store, "d1")
        assert await record(store, "tries/d1/1") is None
        assert await record(store, f"keys/{SOURCE}/k") == {"of": "d1", "until": None}

    async def test_what_is_hidden_comes_back_whole(self, store: Store) -> None:
        await store.add([samples.new("d1")])
        await store.save([samples.ended(samples.delivery("d1"), "dismissed")])
        assert await record(store, "queue/d1") is None
        assert await under(store, f"source/{SOURCE}") == []

        await store.save([samples.reopened(samples.delivery("d1", version=2))])

        assert await is_true(store, "d1")
        assert await under(store, f"source/{SOURCE}") == ["queue/d1"]

    async def test_a_dead_letter_is_there_while_it_is_one(self, store: Store) -> None:
        failed = samples.delivery("d1", failure=Failure("refused"), failed_because="rejected")
        await store.add([samples.new("d1")])
        assert await seen(store, "dead/d1") is None

        await store.save([samples.ended(failed, "failed")])
        assert await record(store, "dead/d1") == {"number": "d1", "because": "rejected"}

        await store.save([samples.reopened(replace(failed, version=2))])
        assert await seen(store, "dead/d1") is None

    async def test_the_term_of_a_key_is_shown_and_carried(self, store: Store) -> None:
        new = samples.keyed("d1", "k", key_term_s=60.0)
        await store.add([new])

        await store.save([replace(samples.ended(new.delivery), forget=True)])

        shown = await seen(store, f"keys/{SOURCE}/k")
        assert shown is not None
        assert shown.gone_at_ms == NOW_MS + 60_000
        assert await record(store, "queue/d1") is None

    async def test_the_key_of_another_is_left_alone(self, store: Store) -> None:
        expired = samples.key("k", "d1", expires_at_ms=NOW_MS)
        old = samples.new("d1", key="k", key_term_s=60.0, keys=[expired])
        await store.add([old, samples.keyed("d2", "k")])

        assert await store.save([samples.ended(old.delivery)]) == [True]

        assert await record(store, f"keys/{SOURCE}/k") == {"of": "d2", "until": None}

    async def test_facts_are_shown_by_their_kind(self, store: Store) -> None:
        broken = Fact("malformed", "7-0", NOW_MS, {"text": "{"})
        of_a_delivery = replace(broken, key="8-0")
        await store.add([samples.new("d1", facts=[of_a_delivery])], facts=[broken])

        shown = await seen(store, "malformed/7-0")
        assert shown is not None
        assert shown.gone_at_ms == NOW_MS + 3_600_000
        assert await record(store, "malformed/7-0") == {"entry": "7-0", "says": {"text": "{"}}
        assert await seen(store, "malformed/8-0") is not None

        await store.save([], facts=[replace(broken, value=None)])
        assert await seen(store, "malformed/7-0") is None

    async def test_the_record_of_a_fact_does_not_go_with_a_delivery(self, store: Store) -> None:
        await store.add([samples.new("d1", facts=[samples.fact("stream", kind="offset")])])

        await store.save([replace(samples.ended(samples.delivery("d1")), forget=True)])

        assert await record(store, "offsets/stream") == {"at": NOW_MS}

    @pytest.mark.parametrize(("state", "kept_ms"), [("delivered", 10_000), ("failed", 20_000)])
    async def test_each_class_carries_its_own_end(
        self, keeping: Store, state: str, kept_ms: int
    ) -> None:
        await keeping.add([samples.new("d1")])
        open_record = await seen(keeping, "queue/d1")
        assert open_record is not None
        assert open_record.gone_at_ms is None
        failing = samples.delivery("d1", failure=Failure("refused"))

        ended = samples.ended(failing, state, at_ms=NOW_MS + 5)
        await keeping.save([replace(ended, ended=(samples.attempt("d1", ended_at_ms=NOW_MS),))])

        ends = {
            key: shown.gone_at_ms
            for key in ("queue/d1", "tries/d1/1", "dead/d1")
            if (shown := await seen(keeping, key)) is not None
        }
        expected = {"queue/d1": NOW_MS + 5 + kept_ms, "tries/d1/1": NOW_MS + 30_000}
        if state == "failed":
            expected["dead/d1"] = NOW_MS + 5 + 40_000
        assert ends == expected

    async def test_what_has_an_end_of_its_own_outlives_its_delivery(self, keeping: Store) -> None:
        await keeping.add([samples.new("d1")])
        failed = samples.ended(samples.delivery("d1", failure=Failure("refused")), "failed")
        await keeping.save([failed])

        purged = PurgeRule(what="delivery", before_ms=NOW_MS + 1, states=("failed",))
        assert await keeping.purge(purged) == 1

        assert await seen(keeping, "dead/d1") is not None

    async def test_what_has_no_end_goes_with_its_delivery(self, store: Store) -> None:
        await store.add([samples.new("d1"), samples.new("d2")])
        ends = [samples.ended(samples.delivery(name)) for name in ("d1", "d2")]
        tried = replace(ends[0], ended=(samples.attempt("d1"),))

        await store.save([tried, replace(ends[1], forget=True)])
        assert await record(store, "queue/d1") is not None
        assert await record(store, "queue/d2") is None
        await store.purge(PurgeRule(what="delivery", before_ms=NOW_MS + 1))

        assert await seen(store, "queue/d1") is None
        assert await seen(store, "tries/d1/1") is None
        assert await under(store, f"source/{SOURCE}") == []

    async def test_it_is_there_for_the_next_handle(self, store: Store, opener: Opener) -> None:
        await store.add([samples.new("d1")])

        again = await opener.open()
        await again.claim(samples.claim(at_ms=NOW_MS + 3))

        assert await is_true(again, "d1")

    @settings(EXAMPLES, max_examples=20, phases=[Phase.explicit, Phase.generate])
    @given(history=st.lists(events, min_size=20, max_size=40))
    async def test_it_is_true_after_every_event_of_any_history(
        self, store: Store, history: list[Event]
    ) -> None:
        lived = History([store, store])
        for number, event in enumerate(history):
            await event.happen(lived)
            for slot in SLOTS:
                assert await is_true(store, lived.id_of(slot)), f"after event {number}: {event}"
