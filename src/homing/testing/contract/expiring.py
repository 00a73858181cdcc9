"""Purging what deliveries carry and leave behind: payloads, attempts, keys, facts."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from homing.domain.delivery import Change, Content, Fact
from homing.ports import PurgeKind, Store
from homing.testing import samples
from homing.testing.contract.opening import Opened
from homing.testing.contract.purging import EVERY_STATE, add_ended, left, rule
from homing.testing.samples import NOW_MS, SOURCE


class PurgingPayloads(Opened):
    async def test_the_record_stays_and_what_it_carried_is_gone(self, store: Store) -> None:
        await store.add([samples.new("d1", payload=b"secret")])
        (held,) = await store.claim(samples.claim())
        end = samples.ended(held.delivery)
        await store.save([replace(end, results={"send": b"bytes"})])

        assert await store.purge(rule("payload", states=("delivered",))) == 1

        assert await store.content("d1") == Content()
        assert await store.get("d1") == replace(end.delivery, version=3)
        assert await store.purge(rule("payload", states=("delivered",))) == 0

    async def test_a_dead_letters_payload_goes_only_by_name(self, store: Store) -> None:
        """It could not be replayed any more; so a route must ask for it."""
        for state in EVERY_STATE:
            await add_ended(store, state, state=state)

        assert await store.purge(rule("payload")) == 3
        assert await store.content("failed") == Content(b"hello")
        assert await store.purge(rule("payload", states=EVERY_STATE)) == 1

        assert await store.content("failed") == Content()
        for state in ("pending", "in_flight", "waiting"):
            assert await store.content(state) == Content(b"hello")

    async def test_only_before_of_the_route_and_to_the_limit(self, store: Store) -> None:
        await add_ended(store, "a", "b", "c", ended_at_ms=NOW_MS - 1)
        await add_ended(store, "d", ended_at_ms=NOW_MS)
        await add_ended(store, "e", ended_at_ms=NOW_MS - 1, route="jobs")
        narrow = rule("payload", NOW_MS, route="mail", limit=2)

        assert [await store.purge(narrow) for _ in range(3)] == [2, 1, 0]

        kept = [name for name in "abcde" if await store.content(name) != Content()]
        assert kept == ["d", "e"]
        assert await left(store) == ["a", "b", "c", "d", "e"]


class PurgingTheRest(Opened):
    async def test_attempts_go_by_their_own_end(self, store: Store) -> None:
        await add_ended(store, "d1")
        delivery = await store.get("d1")
        assert delivery is not None
        old, at, unended = (
            samples.attempt("d1", number, ended_at_ms=ended_at_ms)
            for number, ended_at_ms in enumerate((NOW_MS - 1, NOW_MS, None), 1)
        )
        await store.save([Change(delivery, ended=(old, at, unended))])

        assert await store.purge(rule("attempts", NOW_MS)) == 1

        assert await store.attempts("d1") == [at, unended]
        assert await store.get("d1") == replace(delivery, version=2)

    async def test_attempts_go_by_route_even_after_their_delivery(self, store: Store) -> None:
        """They may be kept longer than it, and their route's rule must still find them."""
        for name, route in (("a", "mail"), ("b", "jobs")):
            await add_ended(store, name, route=route)
            ended = await store.get(name)
            assert ended is not None
            attempts = tuple(samples.attempt(name, number) for number in (1, 2, 3))
            await store.save([Change(ended, ended=attempts)])
        await store.purge(rule("delivery"))

        one_route = rule("attempts", route="jobs", limit=2)

        assert [await store.purge(one_route) for _ in range(3)] == [2, 1, 0]
        assert await store.attempts("b") == []
        assert len(await store.attempts("a")) == 3
        assert await store.purge(rule("attempts")) == 3

    async def test_keys_go_by_their_expiry(self, store: Store) -> None:
        ends = {"past": NOW_MS - 1, "at": NOW_MS, "never": None}
        keys = [samples.key(name, "d1", expires_at_ms=end) for name, end in ends.items()]
        await store.add([samples.new("d1", keys=keys)])

        assert await store.purge(rule("keys", NOW_MS)) == 1

        found = [name for name in ends if await store.find(SOURCE, name) is not None]
        assert found == ["at", "never"]
        assert await store.purge(rule("keys", NOW_MS + 10**12)) == 1
        assert await store.find(SOURCE, "never") is not None
        assert await store.get("d1") is not None

    async def test_keys_go_to_the_limit(self, store: Store) -> None:
        keys = [samples.key(str(n), "d1", expires_at_ms=NOW_MS) for n in range(5)]
        await store.add([samples.new("d1", keys=keys)])

        assert [await store.purge(rule("keys", limit=3)) for _ in range(3)] == [3, 2, 0]

    async def test_facts_go_by_their_time_and_kind(self, store: Store) -> None:
        facts = [
            Fact(kind, key, at_ms)
            for kind in ("minute", "audit")
            for key, at_ms in (("old", NOW_MS - 1), ("at", NOW_MS))
        ]
        await store.save([], facts=facts)

        assert await store.purge(rule("facts", NOW_MS, fact_kind="minute")) == 1
        assert [f.key for f in await store.facts("minute")] == ["at"]
        assert [f.key for f in await store.facts("audit")] == ["at", "old"]

        assert await store.purge(rule("facts", NOW_MS)) == 1
        assert [f.key for f in await store.facts("audit")] == ["at"]

    async def test_facts_go_to_the_limit(self, store: Store) -> None:
        await store.save([], facts=[samples.fact(str(n)) for n in range(5)])

        assert [await store.purge(rule("facts", limit=3)) for _ in range(3)] == [3, 2, 0]

    @pytest.mark.parametrize("what", ["delivery", "payload", "attempts", "keys", "facts"])
    async def test_nothing_to_purge_is_nothing_purged(self, store: Store, what: PurgeKind) -> None:
        assert await store.purge(rule(what)) == 0
