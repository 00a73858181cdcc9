"""A backup that is put back is noticed by the start and by `doctor`; ordinary lives are not."""

from __future__ import annotations

import asyncio
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import httpx2
import pytest

from homing.domain.message import Email
from homing.engine.process.alerts import RESTORED
from homing.ports import Alert
from homing.runtime.app import Homing
from homing.settings import Settings
from homing.stores.sql.sqlite import SqliteStore
from homing.testing import samples
from homing.web.application import application

BOUND_S = 30.0


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "outbox.db"


async def one_more(path: Path, name: str) -> list[str]:
    """A life of the store; what it says of backups."""
    store = SqliteStore(path)
    await store.open()
    await store.add([samples.new(name)])
    facts = await store.facts(RESTORED)
    await store.close()
    return [str((fact.value or {})["text"]) for fact in facts]


def back_up(path: Path, to: Path) -> None:
    with closing(sqlite3.connect(path)) as source, closing(sqlite3.connect(to)) as target:
        source.backup(target)


def put_back(backup: Path, path: Path) -> None:
    for suffix in ("", "-wal", "-shm"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)
    shutil.copy(backup, path)


async def test_an_older_copy_is_noticed_once(path: Path, tmp_path: Path) -> None:
    await one_more(path, "d1")
    back_up(path, tmp_path / "backup.db")
    assert await one_more(path, "d2") == []
    put_back(tmp_path / "backup.db", path)

    [text] = await one_more(path, "d3")

    assert text.startswith("outbox.db is older than the one that was used here before")
    assert await one_more(path, "d4") == [text], "it stays known, and is not noticed anew"


async def test_a_backup_taken_between_two_commits_of_one_life_is_noticed(
    path: Path, tmp_path: Path
) -> None:
    store = SqliteStore(path)
    await store.open()
    await store.add([samples.new("d1")])
    await asyncio.to_thread(back_up, path, tmp_path / "backup.db")
    await store.add([samples.new("d2")])
    await store.close()
    put_back(tmp_path / "backup.db", path)

    assert len(await one_more(path, "d3")) == 1


async def test_a_new_database_in_the_old_place_is_not_an_old_one(path: Path) -> None:
    for name in ("d1", "d2"):
        await one_more(path, name)
    for suffix in ("", "-wal", "-shm"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)

    assert await one_more(path, "d3") == []


@pytest.mark.parametrize("text", ["", "nonsense", "\xff"])
async def test_a_spoilt_file_says_nothing(path: Path, text: str) -> None:
    await one_more(path, "d1")
    path.with_name("outbox.db.high-water").write_text(text, "latin-1")

    assert await one_more(path, "d2") == []


async def test_several_processes_at_once_are_not_a_backup(path: Path) -> None:
    stores = [SqliteStore(path) for _ in range(4)]
    await asyncio.gather(*(store.open() for store in stores))
    for nth in range(20):
        await stores[nth % 4].add([samples.new(f"d{nth}")])
    for store in stores:
        await store.close()

    assert await one_more(path, "more") == []


class Bell:
    def __init__(self) -> None:
        self.rang: asyncio.Future[Alert] = asyncio.get_running_loop().create_future()

    async def sound(self, alert: Alert) -> bool:
        if not self.rang.done():
            self.rang.set_result(alert)
        return True


async def test_a_worker_raises_the_alarm(path: Path, tmp_path: Path) -> None:
    async with Homing(f"sqlite:///{path}", provider="stub:", worker=False) as homing:
        await homing.submit(Email(to="ann@example.org", subject="Booked", text="See you"))
    back_up(path, tmp_path / "backup.db")
    await one_more(path, "d2")
    put_back(tmp_path / "backup.db", path)
    bell = Bell()

    async with Homing(f"sqlite:///{path}", provider="stub:", alarm=bell):
        async with asyncio.timeout(BOUND_S):
            alert = await bell.rang

    assert alert.kind == RESTORED


async def test_readiness_tells_it(path: Path, tmp_path: Path) -> None:
    async with Homing(f"sqlite:///{path}", provider="stub:", worker=False):
        pass
    back_up(path, tmp_path / "backup.db")
    await one_more(path, "d1")
    put_back(tmp_path / "backup.db", path)
    homing = Homing(f"sqlite:///{path}", provider="stub:")
    app = application(homing, Settings(store=f"sqlite:///{path}"))

    async with (
        app.router.lifespan_context(app),
        httpx2.AsyncClient(
            transport=httpx2.ASGITransport(app=app), base_url="http://127.0.0.1:8025"
        ) as client,
    ):
        ready = await client.get("/readyz")

    assert ready.status_code == 200
    assert ready.json() == {
        "status": "degraded",
        "problems": ["a backup was restored: what was sent since it was made may be sent again"],
    }
