"""One connection alone moves the log into the database, and somebody always does (T22)."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from homing.stores.sql.sqlite import checkpoint
from homing.stores.sql.sqlite.checkpoint import CARE_EVERY_S, LONG_LOG_BYTES, Checkpointer
from homing.stores.sql.sqlite.connection import connect, connect_to_write


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "outbox.db"


@pytest.fixture
def first(path: Path) -> Iterator[sqlite3.Connection]:
    connection = connect_to_write(path, 1.0)
    yield connection
    connection.close()


@pytest.fixture
def second(path: Path, first: sqlite3.Connection) -> Iterator[sqlite3.Connection]:
    connection = connect(path, 1.0)
    yield connection
    connection.close()


def write(connection: sqlite3.Connection, megabytes: int) -> None:
    for _ in range(megabytes * 4):
        connection.execute(
            "insert into homing_contents (payload) values (zeroblob(?))", (256 * 1024,)
        )


def test_nobody_checkpoints_unasked(path: Path, first: sqlite3.Connection) -> None:
    write(first, 20)

    assert path.stat().st_size < 1024 * 1024


def test_the_right_is_given_to_one_and_passed_on(
    path: Path, first: sqlite3.Connection, second: sqlite3.Connection
) -> None:
    one, two = Checkpointer(path, first), Checkpointer(path, second)

    one.care(0.0)
    two.care(0.0)
    given = [(one.is_mine, two.is_mine)]
    one.close()
    for now_s in (CARE_EVERY_S / 2, CARE_EVERY_S):
        two.care(now_s)
        given.append((False, two.is_mine))
    two.close()

    assert given == [(True, False), (False, False), (False, True)]


def test_the_log_stays_short_under_its_keeper(path: Path, first: sqlite3.Connection) -> None:
    keeper = Checkpointer(path, first)
    keeper.care(0.0)

    write(first, 60)

    assert keeper.log_bytes() <= LONG_LOG_BYTES
    keeper.close()


@pytest.fixture
def soon_stuck(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoint, "STUCK_LOG_BYTES", LONG_LOG_BYTES)
    monkeypatch.setattr(checkpoint, "_WAIT_FOR_READERS_MS", 1)


@pytest.mark.usefixtures("soon_stuck")
def test_readers_that_always_overlap_do_not_let_the_log_grow(
    path: Path, first: sqlite3.Connection
) -> None:
    keeper = Checkpointer(path, first)
    keeper.care(0.0)
    now_s, longest = 0.0, 0
    reading = start_reading(path)

    for _ in range(6):
        write(first, 20)
        longest = max(longest, keeper.log_bytes())
        now_s += 60
        # The next reader begins before the last one ends: there is never a moment without one.
        reading = take_turns(path, reading)
        keeper.care(now_s)
        reading = take_turns(path, reading)
    reading.close()

    assert longest < 4 * LONG_LOG_BYTES
    keeper.close()


def take_turns(path: Path, reading: sqlite3.Connection) -> sqlite3.Connection:
    following = start_reading(path)
    reading.close()
    return following


def start_reading(path: Path) -> sqlite3.Connection:
    connection = connect(path, 1.0)
    connection.execute("begin")
    connection.execute("select count(*) from homing_contents").fetchone()
    return connection


@pytest.mark.usefixtures("soon_stuck")
def test_a_reader_that_never_ends_is_named_and_delays_the_writers_rarely(
    path: Path, first: sqlite3.Connection, caplog: pytest.LogCaptureFixture
) -> None:
    keeper = Checkpointer(path, first)
    keeper.care(0.0)
    reading = start_reading(path)
    write(first, 20)
    tried: list[str] = []
    first.set_trace_callback(tried.append)

    for now_s in range(1, 600):
        keeper.care(float(now_s))
    first.set_trace_callback(None)
    reading.close()

    assert len([one for one in tried if "wal_checkpoint" in one]) < 30
    assert any("log_cannot_be_emptied" in line for line in caplog.messages)
    keeper.close()


def test_the_keeper_shortens_what_others_have_made_long(
    path: Path, first: sqlite3.Connection, second: sqlite3.Connection
) -> None:
    keeper = Checkpointer(path, first)
    keeper.care(0.0)
    write(second, 40)
    assert keeper.log_bytes() > LONG_LOG_BYTES

    keeper.care(CARE_EVERY_S)
    write(second, 1)  # the next write starts the log afresh

    assert keeper.log_bytes() <= LONG_LOG_BYTES
    keeper.close()
