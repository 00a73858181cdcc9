"""One connection alone moves the log into the database, and somebody always does (T22)."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

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
