"""Opening: what the store makes, what it demands, and what it refuses."""

from __future__ import annotations

import asyncio
import sqlite3
import stat
from contextlib import closing
from pathlib import Path

import pytest
from msgspec.structs import replace

from homing.domain.delivery import Fact
from homing.domain.errors import (
    StoreCorrupt,
    StoreError,
    StoreLocked,
    StoreUnavailable,
    StoreUnsafe,
)
from homing.ports import Added, Query
from homing.runtime.clock import SystemClock
from homing.stores.sql import migrate, schema
from homing.stores.sql.sqlite import SqliteStore
from homing.testing import samples

MORE = migrate.GO_ON + "create table more (n integer) strict;\n"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "outbox.db"


async def opened_and_closed(path: Path) -> None:
    store = SqliteStore(path)
    await store.open()
    await store.add(samples.many(1))
    await store.close()


def modes(folder: Path) -> set[str]:
    return {f"{file.name} {stat.S_IMODE(file.stat().st_mode):o}" for file in folder.iterdir()}


async def test_every_file_is_the_owners_alone(path: Path) -> None:
    store = SqliteStore(path)
    await store.open()
    await store.add(samples.many(1))

    assert modes(path.parent) == {
        "outbox.db 600",
        "outbox.db-wal 600",
        "outbox.db-shm 600",
        "outbox.db.checkpoint.lock 600",
        "outbox.db.high-water 600",
    }
    await store.close()


async def test_a_file_that_others_could_read_is_closed_to_them(path: Path) -> None:
    with sqlite3.connect(path) as other:
        other.execute("create table bookings (id integer)")
    other.close()
    assert "outbox.db 644" in modes(path.parent)

    await opened_and_closed(path)

    assert "outbox.db 600" in modes(path.parent)


async def test_the_log_is_empty_after_a_good_end(path: Path) -> None:
    await opened_and_closed(path)

    assert not path.with_name("outbox.db-wal").exists()


async def test_a_database_that_will_not_log_ahead_is_refused(path: Path) -> None:
    """Its other user keeps it from changing the mode; going on would mean weaker commits."""
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("create table t (n)")
    other.execute("begin exclusive")
    with pytest.raises(StoreUnavailable, match="locked"):
        await SqliteStore(path, busy_timeout_s=0.1).open()
    other.execute("rollback")
    other.close()

    await opened_and_closed(path)


async def test_memory_is_no_place_for_what_was_accepted(tmp_path: Path) -> None:
    assert (await _refusal(":memory:", tmp_path)).startswith("pragma journal_mode stays memory")


async def _refusal(name: str, folder: Path) -> str:
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        with pytest.raises(StoreUnsafe) as refused:
            await SqliteStore(name).open()
    return str(refused.value)


async def test_something_that_is_no_database_is_corrupt_i24(path: Path) -> None:
    await asyncio.to_thread(path.write_bytes, b"not a database, " * 1000)

    with pytest.raises(StoreCorrupt, match="not a database"):
        await SqliteStore(path).open()


async def test_a_damaged_page_is_loud_i24(path: Path) -> None:
    store = SqliteStore(path)
    await store.open()
    await store.add(samples.many(500))
    await store.close()
    await asyncio.to_thread(scribble, path)

    with pytest.raises(StoreCorrupt):
        await read_all(SqliteStore(path))


async def read_all(store: SqliteStore) -> None:
    await store.open()
    try:
        await store.page(Query(), limit=500)
    finally:
        await store.close()


def scribble(path: Path) -> None:
    data = bytearray(path.read_bytes())
    for start in range(4096, len(data), 4096):
        data[start : start + 64] = b"\xff" * 64
    path.write_bytes(data)


async def test_a_folder_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(StoreUnavailable, match="outbox"):
        await SqliteStore(tmp_path / "nowhere" / "outbox.db").open()


async def test_a_locked_database_refuses_and_recovers(path: Path) -> None:
    """The holder of the lock may be stopped for long: nothing is stored, nothing hangs."""
    store = SqliteStore(path, busy_timeout_s=0.1)
    await store.open()
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("begin immediate")

    refused = await asyncio.gather(
        *(store.add([samples.new(f"d{n}")]) for n in range(5)), return_exceptions=True
    )

    assert {type(error) for error in refused} == {StoreLocked}
    assert await store.get("d0") is None  # reading goes on
    other.execute("rollback")
    other.close()
    assert await store.add([samples.new("d0")]) == [Added("d0")]
    await store.close()


async def test_one_bad_request_does_not_spoil_its_group(path: Path) -> None:
    store = SqliteStore(path)
    await store.open()

    answers = await asyncio.gather(
        *(store.add([samples.new(f"d{n}", priority=9 if n == 3 else 1)]) for n in range(8)),
        return_exceptions=True,
    )

    good = [[Added(f"d{n}")] for n in range(8) if n != 3]
    assert [answer for answer in answers if not isinstance(answer, BaseException)] == good
    assert isinstance(answers[3], StoreError)
    await store.close()


async def test_what_was_asked_before_the_end_is_done(path: Path) -> None:
    store = SqliteStore(path)
    await store.open()
    adding = [asyncio.ensure_future(store.add([new])) for new in samples.many(50)]
    await asyncio.sleep(0)
    await store.close()

    assert [await one for one in adding] == [[Added(f"d{n:05}")] for n in range(50)]
    with pytest.raises(StoreUnavailable, match="not open"):
        await store.add([samples.new("late")])
    with pytest.raises(StoreUnavailable, match="not open"):
        await store.get("d00000")


async def test_an_edited_migration_stops_the_start(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await opened_and_closed(path)
    first, *rest = migrate.shipped("homing.stores.sql.sqlite")
    edited = replace(first, script=first.script + "-- better")
    monkeypatch.setattr(schema, "shipped", lambda _: (edited, *rest))

    with pytest.raises(StoreUnsafe, match=r"0001_deliveries\.sql was edited after"):
        await SqliteStore(path).open()


async def test_what_an_older_version_left_is_brought_up_to_date(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it accepted is there, and can be claimed and saved."""
    await opened_and_closed(path)
    known = migrate.shipped("homing.stores.sql.sqlite")
    script = migrate.GO_ON + "alter table homing_deliveries add column more integer;"
    extra = migrate.Migration(len(known) + 1, "more", script)
    monkeypatch.setattr(schema, "shipped", lambda _: (*known, extra))

    store = SqliteStore(path)
    await store.open()
    (claimed,) = await store.claim(samples.claim())
    assert await store.save([samples.ended(claimed.delivery)]) == [True]
    await store.close()

    with closing(sqlite3.connect(path)) as database:
        columns = {row[1] for row in database.execute("pragma table_info(homing_deliveries)")}
    assert "more" in columns


@pytest.mark.parametrize("header", [migrate.GO_ON, migrate.MUST_STOP])
async def test_a_migration_that_old_workers_would_misread_is_refused_while_they_live(
    path: Path, monkeypatch: pytest.MonkeyPatch, header: str
) -> None:
    """One is seen by its lock, another one, on another host, by its heartbeat."""
    old = SqliteStore(path)
    await old.open()
    old.presence.announce("old-worker-1", "this boot")
    beat = Fact("worker", "old-worker-2", SystemClock().now_ms(), {"beats": 1, "boot": "other"})
    gone = Fact("worker", "long-gone", 1, {"beats": 1, "boot": "other"})
    await old.save([], [beat, gone])
    known = migrate.shipped("homing.stores.sql.sqlite")
    extra = migrate.Migration(len(known) + 1, "more", header + "create table more (n int) strict;")
    monkeypatch.setattr(schema, "shipped", lambda _: (*known, extra))
    new = SqliteStore(path)

    if header == migrate.MUST_STOP:
        with pytest.raises(StoreUnsafe, match=r"0003_more .*: old-worker-1, old-worker-2$"):
            await new.open()
        await old.save([], [replace(beat, value=None)])
        with pytest.raises(StoreUnsafe, match=r"0003_more .*: old-worker-1$"):
            await new.open()
        old.presence.withdraw("old-worker-1")
    await new.open()
    await new.close()
    old.presence.withdraw("old-worker-1")
    await old.close()


def test_every_migration_says_what_old_workers_may_do() -> None:
    for migration in migrate.shipped("homing.stores.sql.sqlite"):
        assert migration.stops_old_workers in (True, False)
    with pytest.raises(ValueError, match=r"0002_more\.sql does not begin with"):
        migrate.Migration(2, "more", "create table more (n integer) strict;").stops_old_workers  # noqa: B018 - reading it is the check


async def test_a_database_newer_than_the_code_is_refused(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = migrate.shipped("homing.stores.sql.sqlite")
    extra = migrate.Migration(len(known) + 1, "more", MORE)
    with monkeypatch.context() as patch:
        patch.setattr(schema, "shipped", lambda _: (*known, extra))
        await opened_and_closed(path)

    with pytest.raises(StoreUnsafe, match="opened by a newer version"):
        await SqliteStore(path).open()


async def test_a_migration_is_applied_whole_or_not_at_all(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = migrate.shipped("homing.stores.sql.sqlite")
    script = MORE + "create table more (n integer) strict;\n"
    broken = migrate.Migration(len(known) + 1, "more", script)
    with monkeypatch.context() as patch:
        patch.setattr(schema, "shipped", lambda _: (*known, broken))
        with pytest.raises(StoreError, match="already exists"):
            await SqliteStore(path).open()

    await opened_and_closed(path)
    mended = replace(broken, script=MORE)
    monkeypatch.setattr(schema, "shipped", lambda _: (*known, mended))
    await opened_and_closed(path)


async def test_two_may_open_a_new_database_at_once(path: Path) -> None:
    stores = [SqliteStore(path) for _ in range(4)]

    await asyncio.gather(*(store.open() for store in stores))

    assert await stores[0].add([samples.new("d1")]) == [Added("d1")]
    assert await stores[3].get("d1") is not None
    for store in stores:
        await store.close()
