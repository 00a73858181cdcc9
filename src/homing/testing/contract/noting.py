"""Facts: written, replaced, removed, and read by kind and prefix."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from homing.domain.delivery import Fact
from homing.ports import FactCursor, FactOrder, Store
from homing.testing import samples
from homing.testing.contract.opening import Opened
from homing.testing.samples import NOW_MS


class Noting(Opened):
    async def test_a_fact_keeps_every_kind_of_value(self, store: Store) -> None:
        fact = Fact(
            "mixed",
            "k",
            NOW_MS,
            {
                "text": 'späť \n "quoted"',
                "empty": "",
                "whole": 9_007_199_254_740_991,
                "negative": -1,
                "part": 0.1,
                "round": 2.0,
                "yes": True,
                "no": False,
                "nothing": None,
            },
        )
        await store.save([], facts=[fact, Fact("mixed", "bare", 0, {})])

        bare, read = await store.facts("mixed")

        assert read == fact
        assert {name: type(value) for name, value in (read.value or {}).items()} == {
            name: type(value) for name, value in (fact.value or {}).items()
        }
        assert bare == Fact("mixed", "bare", 0, {})

    async def test_writing_a_fact_again_replaces_it(self, store: Store) -> None:
        await store.save([], facts=[samples.fact("k", old=1), samples.fact("k", new=1)])
        assert await store.facts("note") == [samples.fact("k", new=1)]

        newest = samples.fact("k", at_ms=NOW_MS - 5)
        await store.add([], facts=[newest])

        assert await store.facts("note") == [newest]

    async def test_a_value_of_none_takes_the_fact_away(self, store: Store) -> None:
        await store.save([], facts=[samples.fact("a"), samples.fact("b"), samples.fact("c")])

        gone = [Fact("note", "b", NOW_MS, None), Fact("note", "never was", NOW_MS, None)]
        await store.save([], facts=[*gone, Fact("note", "c", NOW_MS, None), samples.fact("c", n=2)])

        assert await store.facts("note") == [samples.fact("a"), samples.fact("c", n=2)]

    async def test_the_facts_of_the_call_come_after_those_of_its_items(self, store: Store) -> None:
        new = samples.new("d1", facts=[samples.fact("k", of="the delivery")])

        await store.add([new], facts=[samples.fact("k", of="the call")])

        assert await store.facts("note") == [samples.fact("k", of="the call")]

    async def test_a_child_that_ends_writes_its_facts(self, store: Store) -> None:
        """Beside its parent's counter."""
        child = samples.child("a", "p")
        await store.add([samples.new("p", children=[child])])
        end = replace(samples.ended(child.delivery), facts=(samples.fact("of the child"),))

        assert await store.save([end]) == [True]

        assert await store.facts("note") == [samples.fact("of the child")]

    async def test_kinds_are_apart(self, store: Store) -> None:
        one, other = samples.fact("k", kind="one"), samples.fact("k", kind="other", n=1)
        await store.save([], facts=[one, other])

        assert await store.facts("one") == [one]
        assert await store.facts("other") == [other]
        assert await store.facts("on") == []

    async def test_they_come_in_the_order_of_their_keys(self, store: Store) -> None:
        """By code point: the same on every store and in every locale."""
        keys = ["", "10", "2", "A", "B", "Z", "_", "a", "aa", "b", "z", "ä", "ż", "\U0001f600"]
        await store.save([], facts=[samples.fact(key) for key in reversed(keys)])

        assert [fact.key for fact in await store.facts("note")] == keys
        assert [fact.key for fact in await store.facts("note", limit=3)] == keys[:3]

    @pytest.mark.parametrize(
        ("prefix", "found"),
        [
            ("a", ["a", "a%", "a*c", "a/1", "a[b", "a\U0010ffffz"]),
            ("a/", ["a/1"]),
            ("a%", ["a%"]),
            ("a_", []),
            ("a*", ["a*c"]),
            ("a[", ["a[b"]),
            ("A", ["A"]),
            ("", ["A", "a", "a%", "a*c", "a/1", "a[b", "a\U0010ffffz", "b", "ba"]),
        ],
    )
    async def test_a_prefix_is_plain_text(
        self, store: Store, prefix: str, found: list[str]
    ) -> None:
        keys = ["b", "ba", "a/1", "a%", "a*c", "A", "a[b", "a", "a\U0010ffffz"]
        await store.save([], facts=[samples.fact(key) for key in keys])

        assert [fact.key for fact in await store.facts("note", prefix)] == found

    async def test_a_listing_by_key_goes_on_after_its_cursor(self, store: Store) -> None:
        keys = ["a", "b/1", "b/2", "b/3", "c"]
        await store.save([], facts=[samples.fact(key) for key in keys])

        assert await _keys(store, "note", after=FactCursor("b/2")) == ["b/3", "c"]
        assert await _keys(store, "note", "b/", after=FactCursor("b/1"), limit=1) == ["b/2"]
        assert await _keys(store, "note", "b/", after=FactCursor("a")) == ["b/1", "b/2", "b/3"]
        assert await _keys(store, "note", after=FactCursor("b/22")) == ["b/3", "c"]
        assert await _keys(store, "note", after=FactCursor("c")) == []

    @pytest.mark.parametrize("order", ["oldest", "newest"])
    async def test_they_come_in_the_order_of_their_times_page_by_page(
        self, store: Store, order: FactOrder
    ) -> None:
        """Facts of one time are in the order of their keys."""
        oldest_first = ["d", "a", "c", "e", "b"]
        times = {"d": 0, "a": 1, "c": 1, "e": 1, "b": 2}
        facts = [samples.fact(key, at_ms=NOW_MS + at) for key, at in times.items()]
        await store.save([], facts=[*facts, samples.fact("f", kind="other")])
        wanted = oldest_first if order == "oldest" else oldest_first[::-1]

        assert await _keys(store, "note", order=order) == wanted
        seen: list[str] = []
        after = None
        while page := await store.facts("note", limit=2, after=after, order=order):
            seen += [fact.key for fact in page]
            after = FactCursor(page[-1].key, page[-1].at_ms)
        assert seen == wanted

    async def test_a_prefix_holds_in_time_order_too(self, store: Store) -> None:
        facts = [samples.fact(key, at_ms=NOW_MS - n) for n, key in enumerate(["a/1", "b", "a/2"])]
        await store.save([], facts=facts)

        assert await _keys(store, "note", "a/", order="oldest") == ["a/2", "a/1"]
        assert await _keys(store, "note", "a/", order="newest", limit=1) == ["a/1"]


async def _keys(store: Store, kind: str, prefix: str = "", **page: Any) -> list[str]:
    return [fact.key for fact in await store.facts(kind, prefix, **page)]
