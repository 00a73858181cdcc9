"""Facts: written, replaced, taken away, and read by kind and prefix."""

from __future__ import annotations

import pytest

from homing.domain.delivery import Fact
from homing.ports import Store
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
