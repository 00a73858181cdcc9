"""`health` and `doctor` say the same of a locked, damaged or restored store."""

import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import partialmethod
from pathlib import Path

import pytest

from homing.stores.sql.sqlite import SqliteStore
from homing.stores.sql.sqlite.checkpoint import PAGE_BYTES
from tests.unit.cli.conftest import Cli

PATH = Path("homing.db")


@contextmanager
def locked(path: Path) -> Iterator[None]:
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        database.execute("begin immediate")
        yield


def overwrite_the_root_of(path: Path, name: str) -> None:
    with closing(sqlite3.connect(path)) as database:
        [(page,)] = database.execute("select rootpage from sqlite_schema where name = ?", (name,))
    with path.open("r+b") as file:
        file.seek((page - 1) * PAGE_BYTES)
        file.write(b"\xff" * PAGE_BYTES)


def details(cli: Cli, check: str, *, code: int) -> dict[str, str]:
    """What `doctor` says of one thing: verdict by detail."""
    findings = cli("doctor", "--json", code=code).json["findings"]
    return {each["detail"]: each["verdict"] for each in findings if each["check"] == check}


def test_a_lock_is_named_and_nobody_is_called_dead_for_it(
    cli: Cli, letters: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        SqliteStore, "__init__", partialmethod(SqliteStore.__init__, busy_timeout_s=0.05)
    )
    lock = "the store refuses to write: another connection keeps it locked"

    with locked(PATH):
        [problem] = cli("health", "--json", code=1).json["problems"]
        [(detail, verdict)] = details(cli, "store", code=1).items()
        workers = details(cli, "worker", code=1)

    assert problem.startswith(lock)
    assert (detail, verdict) == (problem, "bad")
    assert workers == {}


def test_damage_that_a_command_meets_is_known_to_the_next(
    cli: Cli, letters: dict[str, str]
) -> None:
    overwrite_the_root_of(PATH, "homing_attempts")
    warning = "damage was detected in the store: run `homing doctor`"
    assert warning not in cli("health", code=1).out

    cli("why", letters["bounce"], code=1)

    found = cli("health", "--json", code=1).json
    assert found["warnings"] == [warning]
    said = details(cli, "store", code=1)
    assert any(each.startswith("table homing_attempts is damaged: ") for each in said)
    assert any(each.startswith("damage was detected within the last day: ") for each in said)


def test_a_backup_that_was_put_back_is_told(cli: Cli, letters: dict[str, str]) -> None:
    shutil.copy(PATH, "backup.db")
    cli("annotate", letters["ok"], "--note", "sent since then")
    for suffix in ("-wal", "-shm"):
        Path(f"{PATH}{suffix}").unlink(missing_ok=True)
    shutil.copy("backup.db", PATH)

    [warning] = cli("health", "--json", code=1).json["warnings"]

    assert warning == "a backup was restored: what was sent since it was made may be sent again"
    assert len(details(cli, "backup", code=1)) == 1
    assert cli("health", "--json", code=1).json["warnings"] == [warning]
