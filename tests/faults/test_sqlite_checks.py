"""What doctor may ask of a SQLite store before it is opened."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from homing.domain.errors import StoreError, StoreUnavailable
from homing.ports import Checked, JournalPath, Migrated
from homing.stores.sql.sqlite import SqliteStore, checks
from homing.stores.sql.sqlite.checkpoint import PAGE_BYTES, STUCK_LOG_BYTES
from homing.testing import samples


@pytest.fixture
def store(tmp_path: Path) -> SqliteStore:
    return SqliteStore(tmp_path / "outbox.db")


async def problems(store: SqliteStore) -> list[str]:
    return [found.detail for found in await store.findings() if found.verdict != "good"]


def test_it_says_where_its_journal_lies_and_can_be_examined(store: SqliteStore) -> None:
    assert isinstance(store, JournalPath)
    assert isinstance(store, Checked)
    assert isinstance(store, Migrated)
    assert store.journal_path == store.path.with_name("outbox.db.emergency")


async def test_a_new_place_is_good_and_nothing_is_made_there(store: SqliteStore) -> None:
    findings = await store.findings()

    assert [(found.check, found.verdict) for found in findings] == [
        ("files", "good"),
        ("sqlite", "good"),
    ]
    assert f"SQLite {sqlite3.sqlite_version}" in findings[-1].detail
    assert not store.path.exists()


async def test_a_log_that_a_reader_keeps_long_is_named(store: SqliteStore) -> None:
    log = store.path.with_name(store.path.name + "-wal")
    with log.open("wb") as file:
        file.truncate(2 * STUCK_LOG_BYTES + 1)
    log.chmod(0o600)

    details = [finding.detail for finding in await store.findings()]

    assert f"{log.name} has 125 MB: a connection has been reading for long" in details


async def test_files_that_others_can_read_are_named(store: SqliteStore) -> None:
    await asyncio.to_thread(store.path.touch, 0o644)
    await asyncio.to_thread(store.journal_path.touch, 0o640)

    assert await problems(store) == [
        f"{path} can be read by others: chmod 600 {path}"
        for path in (store.path, store.journal_path)
    ]


async def test_a_folder_instead_of_the_file_cannot_be_written(store: SqliteStore) -> None:
    await asyncio.to_thread(store.path.mkdir, 0o700)

    assert await problems(store) == [f"{store.path} cannot be written"]


async def test_migrations_are_pending_until_it_is_opened(store: SqliteStore) -> None:
    assert await store.pending_migrations() == ["0001_deliveries", "0002_failures"]
    assert not store.path.exists()

    await store.open()

    assert await store.pending_migrations() == []
    await store.close()


async def test_in_a_database_of_others_all_are_pending(store: SqliteStore) -> None:
    with sqlite3.connect(store.path) as database:
        database.execute("create table bookings (id integer)")
    database.close()

    assert await store.pending_migrations() == ["0001_deliveries", "0002_failures"]


async def test_what_is_no_database_is_said(store: SqliteStore) -> None:
    await asyncio.to_thread(store.path.write_bytes, b"not a database, " * 1000)

    with pytest.raises(StoreError, match="not a database"):
        await store.pending_migrations()


async def test_what_cannot_be_opened_is_said(store: SqliteStore) -> None:
    """As with a file that its owner alone may read. (The tests may run as root.)"""
    store.path.mkdir()

    with pytest.raises(StoreUnavailable, match="SQLITE_"):
        await store.pending_migrations()


async def fill(store: SqliteStore) -> None:
    await store.open()
    await store.add([samples.new(f"d{number}") for number in range(200)])
    await store.close()


def overwrite_the_root_of(path: Path, name: str) -> None:
    with closing(sqlite3.connect(path)) as database:
        [(page,)] = database.execute("select rootpage from sqlite_schema where name = ?", (name,))
    with path.open("r+b") as file:
        file.seek((page - 1) * PAGE_BYTES)
        file.write(b"\xff" * PAGE_BYTES)


@pytest.mark.parametrize(
    ("name", "table"),
    [
        ("homing_attempts", "homing_attempts"),
        ("homing_deliveries_ready", "homing_deliveries"),
    ],
)
async def test_a_damaged_page_is_found_and_its_table_named(
    store: SqliteStore, name: str, table: str
) -> None:
    await fill(store)
    await asyncio.to_thread(overwrite_the_root_of, store.path, name)

    [damage] = [found for found in await store.findings() if found.verdict == "bad"]

    assert damage.check == "store"
    assert damage.detail.startswith(f"table {table} is damaged: ")


async def test_a_check_that_would_take_too_long_ends_and_says_so(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    await fill(store)
    monkeypatch.setattr(checks, "CHECK_WITHIN_S", 0.0)

    [text] = await problems(store)

    assert text.startswith("outbox.db was not checked to its end within 0 s")
