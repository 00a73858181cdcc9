"""Claims of SQLite and the lock of the file."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path

import pytest

from homing.domain.errors import StoreError
from homing.ports import Claim
from homing.stores.sql.sqlite import SqliteStore, claiming
from homing.stores.sql.sqlite.claiming import Due
from homing.stores.sql.sqlite.session import Session
from homing.testing import samples


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    store = SqliteStore(tmp_path / "outbox.db")
    await store.open()
    yield store
    await store.close()


@pytest.fixture
async def impatient(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    """It does not wait for the lock of its file."""
    store = SqliteStore(tmp_path / "outbox.db", busy_timeout_s=0.0)
    await store.open()
    yield store
    await store.close()


def other_connection(store: SqliteStore) -> closing[sqlite3.Connection]:
    return closing(sqlite3.connect(store.path, isolation_level=None, check_same_thread=False))


async def test_a_claim_of_nothing_waits_for_no_lock(impatient: SqliteStore) -> None:
    """Many idle workers that are woken for one delivery must not queue for the writer's lock."""
    with other_connection(impatient) as other:
        other.execute("begin immediate")
        assert await impatient.claim(samples.claim()) == []
        other.execute("rollback")
    await impatient.add([samples.new("d1")])
    assert len(await impatient.claim(samples.claim())) == 1


async def test_a_claim_of_something_waits_for_the_lock(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    await store.add([samples.new("d1")])
    with other_connection(store) as other:
        other.execute("begin immediate")
        # It has met the lock when it sleeps before it tries again.
        monkeypatch.setattr("time.sleep", lambda _: other.execute("rollback"))
        [claimed] = await store.claim(samples.claim())
    assert claimed.delivery.id == "d1"


async def test_a_claim_of_something_that_is_locked_is_refused(impatient: SqliteStore) -> None:
    await impatient.add([samples.new("d1")])
    with other_connection(impatient) as other:
        other.execute("begin immediate")
        with pytest.raises(StoreError):
            await impatient.claim(samples.claim())
        other.execute("rollback")
    assert len(await impatient.claim(samples.claim())) == 1


async def test_what_another_takes_between_the_look_and_the_claim_is_not_claimed_twice(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A claim reads before it has the lock: what it has read is then looked at again."""
    await store.add([samples.new("d1"), samples.new("d2")])
    looked: list[list[str]] = []
    look = claiming._due

    def look_and_be_overtaken(session: Session, claim: Claim) -> list[Due]:
        due = look(session, claim)
        looked.append([one.id for one in due])
        if len(looked) == 1:
            with other_connection(store) as other:
                other.execute(
                    "update homing_deliveries set state = 'in_flight', holder = 'other',"
                    " due_at_ms = due_at_ms + 60000, version = version + 1 where id = 'd1'"
                )
        return due

    monkeypatch.setattr(claiming, "_due", look_and_be_overtaken)
    claimed = await store.claim(samples.claim())

    assert looked == [["d1", "d2"], ["d2"]]
    assert [one.delivery.id for one in claimed] == ["d2"]


async def test_a_durable_claim_of_nothing_writes_nothing(store: SqliteStore) -> None:
    """The first commit of a second counts up for the notice of old backups: an idle worker must
    not keep the disk awake."""
    await store.add([samples.new("d1")])
    log = store.path.with_name("outbox.db-wal")
    written = log.stat().st_size
    claim = samples.claim(queues=("another",), durable=True)
    committer = store._open.writer._committer
    assert committer is not None
    committer._high_water._raised_at_s = float("-inf")  # a second has passed

    assert await store.claim(claim) == []

    assert log.stat().st_size == written


async def test_claims_go_by_priority_whatever_the_queue(store: SqliteStore) -> None:
    queues = [f"queue{number:02}" for number in range(20)]  # more than one statement reads
    await store.add(
        [
            samples.new(f"{queue}-{priority}", queue=queue, priority=priority)
            for queue in reversed(queues)
            for priority in (3, 1, 4)
        ]
    )

    claimed = await store.claim(samples.claim(queues=tuple(queues), limit=30))

    expected = [f"{queue}-1" for queue in queues] + [f"{queue}-3" for queue in queues[:10]]
    assert [one.delivery.id for one in claimed] == expected
