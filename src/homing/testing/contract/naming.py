"""Names are plain text: different names stay different, whatever characters they contain."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from homing.domain.delivery import Change, Recipient
from homing.ports import Added, Existing, Query, Store
from homing.testing import samples
from homing.testing.contract.opening import Opened

# Separators, patterns, quotes and braces of every language below us; names that look like
# numbers; upper and lower case; one letter written in two ways; spaces at the ends.
ODD_NAMES = (
    "",
    " ",
    "a",
    "A",
    "a ",
    " a",
    "a:b",
    "a::b",
    ":",
    "a/b",
    "a|b",
    "a\\b",
    "a\\:b",
    "a%",
    "a_",
    "*",
    "?",
    "[a]",
    "{a}",
    "{a",
    "'",
    "''",
    '"',
    "`",
    "--",
    ";",
    "$1",
    ":a",
    "@a",
    "%s",
    "0",
    "00",
    "1",
    "01",
    "1.0",
    "1e0",
    "0x1",
    "null",
    "None",
    "true",
    "\n",
    "\r\n",
    "\t",
    "\x01",
    "\x1f",
    "\x7f",
    "\u00e9",
    "e\u0301",
    "\u2028",
    "\ufeff",
    "\ufffd",
    "\U0001f600",
    "x" * 10_000,
    "x" * 9_999 + "y",
)
# Joined with a separator, or a length in front, some of these would be the same.
PARTS = ("", ":", "a", "a:", ":a", "a:b", "b", "1:a", "2", "a\x1fb", "%3A", "a%3Ab", "{a}")


class Naming(Opened):
    async def test_odd_keys_are_apart_and_found(self, store: Store) -> None:
        news = [samples.keyed(f"d{n:03}", name) for n, name in enumerate(ODD_NAMES)]

        assert await store.add(news) == [Added(new.delivery.id) for new in news]

        for new, name in zip(news, ODD_NAMES, strict=True):
            assert await store.find(samples.SOURCE, name) == new.keys[0]
            page = await store.page(Query(key=name))
            assert [d.id for d in page.items] == [new.delivery.id]
        assert await store.add(news) == [Existing(new.delivery.id, new.keys[0]) for new in news]

    async def test_two_pairs_of_source_and_key_never_meet(self, store: Store) -> None:
        pairs = list(itertools.product(PARTS, PARTS))
        news = [
            samples.new(f"d{n:03}", keys=[samples.key(key, f"d{n:03}", source=source)])
            for n, (source, key) in enumerate(pairs)
        ]

        assert await store.add(news) == [Added(new.delivery.id) for new in news]

        for new, (source, key) in zip(news, pairs, strict=True):
            assert await store.find(source, key) == new.keys[0]

    async def test_odd_ids_are_apart(self, store: Store) -> None:
        names = [name for name in ODD_NAMES if name]
        news = [samples.new(name, payload=name.encode()) for name in names]
        assert await store.add(news) == [Added(name) for name in names]

        taken = await store.claim(samples.claim(limit=len(names)))
        assert [c.delivery.id for c in taken] == sorted(names)
        saved = await store.save(
            [
                Change(c.delivery, ended=(samples.attempt(c.delivery.id),), results={"r": b"1"})
                for c in taken
            ]
        )

        assert saved == [True] * len(names)
        for name in names:
            assert await store.attempts(name) == [samples.attempt(name)]
            content = await store.content(name)
            assert content is not None
            assert (content.payload, content.results) == (name.encode(), {"r": b"1"})

    async def test_odd_facts_are_apart(self, store: Store) -> None:
        facts = [
            samples.fact(key, kind=kind, n=n)
            for n, (kind, key) in enumerate(itertools.product(PARTS, PARTS))
        ]
        await store.save([], facts=facts)

        for kind in PARTS:
            wanted = sorted((f for f in facts if f.kind == kind), key=lambda f: f.key)
            assert await store.facts(kind) == wanted

    @pytest.mark.parametrize("field", ["route", "source", "topic"])
    async def test_odd_values_are_found_exactly(self, store: Store, field: str) -> None:
        named: list[dict[str, Any]] = [{field: name} for name in ODD_NAMES]
        await store.add([samples.new(f"d{n:03}", **one) for n, one in enumerate(named)])

        for n, one in enumerate(named):
            page = await store.page(Query(**one))
            assert [d.id for d in page.items] == [f"d{n:03}"], one

    async def test_odd_recipients_are_found_exactly(self, store: Store) -> None:
        await store.add(
            [
                samples.new(f"d{n:03}", recipients=(Recipient("everyone"), Recipient(name)))
                for n, name in enumerate(ODD_NAMES)
            ]
        )

        for n, name in enumerate(ODD_NAMES):
            page = await store.page(Query(recipient=name))
            assert [d.id for d in page.items] == [f"d{n:03}"], name
        assert await store.count(Query(recipient="everyone")) == {(): len(ODD_NAMES)}

    async def test_odd_queues_are_apart(self, store: Store) -> None:
        await store.add([samples.new(f"d{n:03}", queue=name) for n, name in enumerate(ODD_NAMES)])

        for n, name in enumerate(ODD_NAMES):
            assert await store.next_due_ms((name,)) == samples.NOW_MS
            taken = await store.claim(samples.claim(queues=(name,)))
            assert [c.delivery.id for c in taken] == [f"d{n:03}"], name

    async def test_odd_result_names_are_apart(self, store: Store) -> None:
        await store.add([samples.new("d1")])
        results = {name: name.encode() for name in ODD_NAMES}

        await store.save([Change(samples.delivery("d1"), results=results)])

        content = await store.content("d1")
        assert content is not None
        assert content.results == results
