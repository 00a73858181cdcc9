"""Held records: what a process remembers of its claims never outweighs what is stored."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path

import pytest
from msgspec.structs import replace

from homing.domain import transitions
from homing.domain.delivery import Attempt, Change, Delivery, Receipt
from homing.domain.policy import Plan, Stage
from homing.ports import Added, Existing, PurgeRule
from homing.stores.sql import held as holding
from homing.stores.sql.sqlite import SqliteStore
from homing.testing import samples
from homing.testing.samples import LEASE_MS, NOW_MS

PLAN = Plan(stages=(Stage(name="send"),))


@pytest.fixture
async def stores(tmp_path: Path) -> AsyncIterator[tuple[SqliteStore, SqliteStore]]:
    one, other = (SqliteStore(tmp_path / "outbox.db") for _ in range(2))
    await one.open()
    await other.open()
    yield one, other
    await one.close()
    await other.close()


@pytest.fixture
def store(stores: tuple[SqliteStore, SqliteStore]) -> SqliteStore:
    return stores[0]


def success(held: Delivery, at_ms: int = NOW_MS + 5) -> Change:
    return transitions.succeed(held, plan=PLAN, now_ms=at_ms, roll=0.5)


async def claimed(store: SqliteStore, number: int = 1, **fields: int) -> list[Delivery]:
    await store.add(samples.many(number))
    return [one.delivery for one in await store.claim(samples.claim("w1", **fields))]


def rows(store: SqliteStore, statement: str) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(store.path)) as database:
        return database.execute(statement).fetchall()


async def test_a_plain_success_writes_neither_record_nor_ledger(store: SqliteStore) -> None:
    [held] = await claimed(store)
    before = rows(store, "select record from homing_records")
    change = success(held)

    assert await store.save([change]) == [True]

    assert rows(store, "select record from homing_records") == before
    assert rows(store, "select * from homing_attempts") == []
    assert await store.get(held.id) == replace(change.delivery, version=held.version + 1)
    assert await store.attempts(held.id) == list(change.ended)


@pytest.mark.parametrize("receipt", [Receipt("queued-7"), Receipt(detail="2.0.0 Ok")])
async def test_an_accepted_send_writes_no_ledger_whether_it_got_a_name_or_not(
    store: SqliteStore, receipt: Receipt
) -> None:
    [held] = await claimed(store)
    change = transitions.succeed(held, plan=PLAN, now_ms=NOW_MS + 5, roll=0.5, receipt=receipt)

    assert await store.save([change]) == [True]

    assert rows(store, "select * from homing_attempts") == []
    assert await store.attempts(held.id) == list(change.ended)


async def test_one_lost_claim_in_a_group_is_told_apart(
    stores: tuple[SqliteStore, SqliteStore],
) -> None:
    """All of them change alike and go in one statement; those that were kept are still written."""
    store, other = stores
    held = await claimed(store, 5)
    taken = await other.claim(
        samples.claim("w2", at_ms=NOW_MS + LEASE_MS, lease_until_ms=NOW_MS + 9 * LEASE_MS, limit=2)
    )

    saved = await store.save([success(one) for one in held])

    assert saved == [False, False, True, True, True]
    for one in taken:
        assert await store.get(one.delivery.id) == one.delivery
        assert await store.attempts(one.delivery.id) == []
    assert await other.save([success(one.delivery) for one in taken]) == [True, True]


async def test_another_claim_that_reached_the_same_version_is_not_ours(
    stores: tuple[SqliteStore, SqliteStore],
) -> None:
    """Forgotten and added again under its old id: neither its row nor its record is the old one."""
    store, other = stores
    [held] = await claimed(store)
    assert await other.save([replace(success(held), forget=True)]) == [True]
    assert await other.add([samples.new("another")]) == [Added("another")]
    [new] = await other.claim(samples.claim("w2"))
    assert new.delivery.version == held.version

    assert await store.save([success(held)]) == [False]

    assert await store.get("another") == new.delivery
    assert await store.get(held.id) is None


async def test_a_row_that_is_gone_does_not_come_back(
    stores: tuple[SqliteStore, SqliteStore],
) -> None:
    store, other = stores
    [held] = await claimed(store)
    assert await other.save([success(held)]) == [True]
    assert await other.purge(PurgeRule(what="delivery", before_ms=NOW_MS + 9)) == 1

    late = samples.retry(held)
    assert await store.save([late, success(held)]) == [False, False]

    assert await store.get(held.id) is None
    assert rows(store, "select count(*) from homing_records") == [(0,)]


async def test_what_is_no_longer_remembered_is_looked_for(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(holding, "MOST_HELD", 2)
    held = await claimed(store, 5)

    assert await store.save([success(one) for one in held]) == [True] * 5

    for one in held:
        assert [a.status for a in await store.attempts(one.id)] == ["done"]


async def test_a_mark_then_the_outcome_of_what_was_added_in_hand(store: SqliteStore) -> None:
    """Stored already claimed: its saves need no look first."""
    lease_ms = NOW_MS + LEASE_MS
    pending = samples.delivery("d1")
    held = transitions.claim(pending, holder="w1", now_ms=NOW_MS, lease_until_ms=lease_ms).delivery
    await store.add([replace(samples.new("d1"), delivery=held)])
    mark = transitions.mark_committing(held, now_ms=NOW_MS + 1, frozen={"frozen": b"x"})
    assert await store.save([mark]) == [True]
    marked = replace(mark.delivery, version=held.version + 1)
    end = success(marked)

    assert await store.save([end]) == [True]

    assert await store.get("d1") == replace(end.delivery, version=marked.version + 1)
    [(record,)] = rows(store, "select record from homing_records")
    assert '"state":"in_flight"' in str(record)


async def test_a_lease_made_longer_elsewhere_is_not_taken_for_the_one_read(
    stores: tuple[SqliteStore, SqliteStore],
) -> None:
    """A renewal leaves the version: the mark says how long the lease is, as any change does."""
    store, other = stores
    [held] = await claimed(store)
    longer_ms = NOW_MS + 5 * LEASE_MS
    assert await other.renew("w1", [(held.id, held.version)], longer_ms) == [True]
    mark = transitions.mark_committing(held, now_ms=NOW_MS + 1, frozen={})

    assert await store.save([mark]) == [True]

    assert await store.get(held.id) == replace(mark.delivery, version=held.version + 1)


async def test_an_id_that_is_taken_is_found_out_by_the_insert(store: SqliteStore) -> None:
    """The others of its group are added; it is told what is there."""
    await store.add([samples.new("d1", payload=b"first")])

    added = await store.add([samples.new("d0"), samples.new("d1"), samples.keyed("d2", "k")])

    assert added == [Added("d0"), Existing("d1"), Added("d2")]
    content = await store.content("d1")
    assert content is not None
    assert content.payload == b"first"


async def delivered(store: SqliteStore) -> tuple[Delivery, Attempt]:
    [held] = await claimed(store)
    change = success(held)
    await store.save([change])
    return replace(change.delivery, version=held.version + 1), change.ended[0]


async def test_an_implied_attempt_outlives_its_delivery(store: SqliteStore) -> None:
    before, attempt = await delivered(store)

    assert await store.purge(PurgeRule(what="delivery", before_ms=NOW_MS + 9)) == 1

    assert await store.get(before.id) is None
    assert await store.attempts(before.id) == [attempt]
    assert await store.purge(PurgeRule(what="attempts", before_ms=NOW_MS + 9)) == 1
    assert await store.attempts(before.id) == []


@pytest.mark.parametrize("route", [None, samples.ROUTE])
async def test_an_implied_attempt_is_purged_as_any_other(
    store: SqliteStore, route: str | None
) -> None:
    before, attempt = await delivered(store)
    rule = PurgeRule(what="attempts", before_ms=NOW_MS + 5, route=route)

    assert await store.purge(rule) == 0
    assert await store.attempts(before.id) == [attempt]
    assert await store.purge(replace(rule, before_ms=NOW_MS + 6)) == 1
    assert await store.purge(replace(rule, before_ms=NOW_MS + 6)) == 0

    assert await store.attempts(before.id) == []
    assert await store.get(before.id) == before


async def test_the_oldest_attempts_go_first_implied_or_not(store: SqliteStore) -> None:
    held = await claimed(store, 3)
    failed = samples.attempt(held[1].id, ended_at_ms=NOW_MS + 2)
    await store.save(
        [
            success(held[0], NOW_MS + 1),
            replace(samples.ended(held[1], "failed"), ended=(failed,)),
            success(held[2], NOW_MS + 3),
        ]
    )
    rule = PurgeRule(what="attempts", before_ms=NOW_MS + 9, limit=2)

    assert await store.purge(rule) == 2

    left = [await store.attempts(one.id) for one in held]
    assert [len(some) for some in left] == [0, 0, 1]


async def test_a_purged_payload_leaves_the_implied_attempt(store: SqliteStore) -> None:
    before, attempt = await delivered(store)

    assert await store.purge(PurgeRule(what="payload", before_ms=NOW_MS + 9)) == 1
    assert await store.purge(PurgeRule(what="payload", before_ms=NOW_MS + 9)) == 0

    assert await store.attempts(before.id) == [attempt]


async def test_an_implied_attempt_stays_when_its_delivery_lives_again(store: SqliteStore) -> None:
    before, first = await delivered(store)
    await store.save([samples.reopened(before)])
    [again] = await store.claim(samples.claim("w2"))
    second = success(again.delivery, NOW_MS + 50)

    assert await store.save([second]) == [True]

    assert await store.attempts(before.id) == [first, *second.ended]
    assert [attempt.number for attempt in await store.attempts(before.id)] == [1, 2]


async def test_a_forgotten_delivery_takes_its_implied_attempt_along(store: SqliteStore) -> None:
    before, _ = await delivered(store)

    assert await store.save([Change(before, forget=True)]) == [True]

    assert await store.attempts(before.id) == []
    assert rows(store, "select count(*) from homing_attempts") == [(0,)]


async def test_an_attempt_that_says_more_has_a_row_of_its_own(store: SqliteStore) -> None:
    [held] = await claimed(store)
    change = success(held)
    told = replace(change.ended[0], detail="on the second line")

    await store.save([replace(change, ended=(told,))])

    assert await store.attempts(held.id) == [told]
