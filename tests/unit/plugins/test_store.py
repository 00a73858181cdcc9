"""What a plugin keeps in the store: its SQL files, applied once, and its record layouts."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from homing import Job
from homing.domain.errors import StoreError, StoreUnsafe
from homing.domain.policy import Plan, Stage
from homing.engine.route import Route
from homing.plugins.programs import Program, assemble
from homing.plugins.value import NoSettings, Plugin, Setup
from homing.ports import Migrated, Showing
from homing.settings import Loaded, Settings
from homing.testing.contract.foreign import FOREIGN

FIRST = "20261101T0900_queue_view.sql"
SECOND = "20261102080000_queue_index.sql"
VIEW = "create view queue as select 1 as waiting;"


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An importable package of SQL files; each test has one of its own name."""
    folder = tmp_path / f"sql_of_{tmp_path.name}"
    folder.mkdir()
    (folder / "__init__.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    (folder / FIRST).write_text(VIEW)
    return folder


def route(setup: Setup[NoSettings]) -> tuple[Route, ...]:
    del setup
    plan = Plan(stages=(Stage(name="run"),))
    return (Route(name="queue", plan=plan, steps={"run": FOREIGN.write}),)  # type: ignore[dict-item]


def program(store: str, **fields: Any) -> Program:
    plugin = Plugin(name="queue", about="A queue.", settings=NoSettings, routes=route, **fields)
    return Program(loaded=Loaded(Settings(store=store), {}), plugin=plugin)


async def pending(chosen: Program) -> list[str]:
    store = assemble(chosen, worker=False).store
    assert isinstance(store, Migrated)
    return [name for name in await store.pending_migrations() if "/" in name]


async def opened(chosen: Program) -> None:
    async with assemble(chosen, worker=False):
        """Opening applies what is pending."""


async def test_sql_files_are_applied_once_in_the_order_of_their_times(
    tmp_path: Path, package: Path
) -> None:
    chosen = program(f"sqlite:///{tmp_path}/x.db", sql_files={"sqlite": package.name})
    assert await pending(chosen) == [f"queue/{FIRST}"]
    await opened(chosen)
    assert await pending(chosen) == []
    (package / SECOND).write_text(
        "create table extra (id);\ninsert into extra select * from queue;"
    )
    assert await pending(chosen) == [f"queue/{SECOND}"]
    await opened(chosen)
    await opened(chosen)

    with sqlite3.connect(tmp_path / "x.db") as database:
        assert database.execute("select * from extra").fetchall() == [(1,)]


async def test_an_edited_file_stops_the_start(tmp_path: Path, package: Path) -> None:
    chosen = program(f"sqlite:///{tmp_path}/x.db", sql_files={"sqlite": package.name})
    await opened(chosen)
    (package / FIRST).write_text(VIEW.replace("1", "2"))

    with pytest.raises(StoreUnsafe, match=f"{FIRST} of plugin queue was edited"):
        await opened(chosen)


async def test_a_file_that_fails_is_named_and_leaves_nothing(tmp_path: Path, package: Path) -> None:
    chosen = program(f"sqlite:///{tmp_path}/x.db", sql_files={"sqlite": package.name})
    (package / SECOND).write_text("create table extra (id);\ninsert into nowhere values (1);")

    with pytest.raises(StoreError, match=f"{SECOND} of plugin queue: no such table: nowhere"):
        await opened(chosen)

    assert await pending(chosen) == [f"queue/{FIRST}", f"queue/{SECOND}"]
    with sqlite3.connect(tmp_path / "x.db") as database:
        assert (
            database.execute("select name from sqlite_schema where name = 'extra'").fetchall() == []
        )


def test_a_file_without_its_time_is_refused(tmp_path: Path, package: Path) -> None:
    (package / "view.sql").write_text(VIEW)
    with pytest.raises(ValueError, match=r"20261116T1200_what\.sql"):
        assemble(
            program(f"sqlite:///{tmp_path}/x.db", sql_files={"sqlite": package.name}), worker=False
        )


async def test_records_of_a_layout_are_written_with_the_delivery() -> None:
    chosen = program("memory:", layouts={"queue": FOREIGN})
    async with assemble(chosen, worker=False) as homing:
        ticket = await homing.submit(Job("queue", {"n": 1}))
        store = homing.store
        assert isinstance(store, Showing)
        shown = await store.shown(f"queue/{ticket.delivery_id}")

    assert shown is not None
    assert set(json.loads(shown.data)) == set(FOREIGN.fields)
