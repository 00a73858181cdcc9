"""T17, T20, T21: odd characters in keys, ids, words and addresses mean only themselves."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import quote

import pytest

from homing.ports import Query
from homing.runtime.app import Homing
from tests.unit.web.conftest import OPEN, Api, running

# What SQL, LIKE, Lua, Redis keys, globs, paths, formats or terminals might take for more.
ODD = [
    "a:b",
    "a*",
    "*",
    "%",
    "_",
    "a_b",
    "a%b",
    "{a}b",
    "{}",
    "{0.__class__}",
    "${jndi:ldap://x}",
    "'",
    "' or '1'='1",
    '"; drop table homing_deliveries; --',
    "\\",
    "a\\_b",
    "../../etc/passwd",
    "a/b",
    "a?b#c",
    "a&limit=1",
    "[a-z]",
    "=1+1",
    "@SUM(1)",
    "-1",
    "null",
    "ключ",
    "鍵",
    "🔑",
    "a b",
    "A",
    "a",
]


@pytest.fixture
async def api(tmp_path: Path) -> AsyncIterator[Api]:
    """On the real database: that is where words could turn into commands."""
    homing = Homing(f"sqlite:///{tmp_path / 'homing.db'}", provider="stub:", worker=False)
    async with running(OPEN, homing) as api:
        yield api


async def test_every_key_is_its_own_and_is_found_by_itself_alone(api: Api) -> None:
    """Injective: no two different keys meet, and no filter matches more than it says."""
    ids: dict[str, str] = {}
    for key in ODD:
        answer = await api.client.post(
            "/api/v1/deliveries",
            json={"to": ["ann@example.org"], "text": "x", "source": key},
            headers={b"Idempotency-Key": key.encode()},
        )
        assert answer.status_code == 202, key
        ids[key] = answer.json()["delivery_id"]
    assert len(set(ids.values())) == len(ODD)
    for key in ODD:
        for name, shown_as in (("key", "idempotency_key"), ("source", "source")):
            found = await api.listed(**{name: key})
            assert [item["delivery_id"] for item in found] == [ids[key]], (name, key)
            assert found[0][shown_as] == key


async def test_no_two_pairs_of_source_and_key_meet(api: Api) -> None:
    for source, key in [
        ("a", "b:c"),
        ("a:b", "c"),
        ("", "a"),
        ("a", "a"),
        ("a\\", "b"),
        ("a", "\\b"),
    ]:
        answer = await api.post(key, source=source)
        assert (answer.status_code, answer.json()["created"]) == (202, True)


@pytest.mark.parametrize("word", ODD)
async def test_odd_words_in_filters_match_nothing_else(api: Api, word: str) -> None:
    await api.dead("k", source="shop")
    for name in ("recipient", "source", "topic", "key", "error_class"):
        assert await api.listed(**{name: word}) == []
    refused = await api.client.get("/api/v1/deliveries", params={"route": word})
    assert (refused.status_code, refused.json()["field"]) == (400, "route")
    assert word not in refused.text or len(word) < 3


@pytest.mark.parametrize("word", [*ODD, "x" * 10_000, "\x01", "a\x00b", "\u202e"])
async def test_odd_ids_are_simply_unknown(api: Api, word: str) -> None:
    for part in ("", "/why", "/audit", "/attempts"):
        answer = await api.client.get(f"/api/v1/deliveries/{quote(word, safe='')}{part}")
        assert answer.status_code == 404
        assert word not in answer.text or len(word) < 3
    who = {"actor": "ann", "reason": "r"}
    verb = await api.client.post(f"/api/v1/deliveries/{quote(word, safe='')}/replay", json=who)
    assert verb.status_code == 404
    replay = await api.client.get(f"/api/v1/replays/{quote(word, safe='')}")
    assert replay.status_code == 404
    paused = await api.client.post(f"/api/v1/routes/{quote(word, safe='')}/pause", json=who)
    assert paused.status_code == 404


@pytest.mark.parametrize(
    "key", [b"a\x00b", b"\x00", b"a\x7fb", b"\xc2\x85", b"\xe2\x80\xae", b"k" * 10_000]
)
async def test_a_key_that_cannot_be_seen_or_is_endless_is_refused(api: Api, key: bytes) -> None:
    answer = await api.client.post(
        "/api/v1/deliveries",
        json={"to": ["ann@example.org"], "text": "x"},
        headers={b"Idempotency-Key": key},
    )
    assert (answer.status_code, answer.json()["field"]) == (400, "Idempotency-Key")
    assert await api.homing.store.count(Query()) in ({}, {(): 0})


async def test_the_table_is_still_there(api: Api) -> None:
    for word in ODD:
        await api.client.get("/api/v1/deliveries", params={"status": word})
        await api.client.get("/api/v1/deliveries", params={"cursor": word})
        await api.client.get("/api/v1/deliveries", params={word: word})
    assert (await api.post("after")).status_code == 202


async def test_a_hidden_recipient_stays_hidden(api: Api) -> None:
    """T21: bcc is in the envelope and in no header."""
    answer = await api.post("k", to=["ok@stub.test"], bcc=["secret@stub.test"])
    await api.work()
    delivery_id = answer.json()["delivery_id"]
    content = await api.homing.store.content(delivery_id)
    stored = await api.homing.store.get(delivery_id)
    assert content is not None
    assert stored is not None
    assert b"secret" not in content.results["frozen"]
    assert [r.address for r in stored.recipients] == ["ok@stub.test", "secret@stub.test"]


async def test_nobody_chooses_the_sender(api: Api) -> None:
    """T21: From is the route's own; a caller may only repeat it."""
    spoofed = await api.post("k", **{"from": "ceo@example.org"})
    assert (spoofed.status_code, spoofed.json()["field"]) == (422, "from")
    header = await api.post("k", headers={"From": "ceo@example.org"})
    assert (header.status_code, header.json()["field"]) == (422, "headers.From")
    assert (await api.post("k", **{"from": "homing@stub.test"})).status_code == 202
