"""A damaged page that stops the claims is neither silent nor called ready."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path

import httpx2
import pytest

from homing.domain.message import Email
from homing.ports import Alert
from homing.runtime.app import Homing
from homing.settings import Settings
from homing.stores.sql.sqlite.checkpoint import PAGE_BYTES
from homing.web.application import application

BOUND_S = 30.0


class Bell:
    def __init__(self) -> None:
        self.alerts: list[Alert] = []
        self.rang = asyncio.Event()

    async def sound(self, alert: Alert) -> bool:
        self.alerts.append(alert)
        self.rang.set()
        return True


def overwrite_the_root_of(path: Path, name: str) -> None:
    with closing(sqlite3.connect(path)) as database:
        [(page,)] = database.execute("select rootpage from sqlite_schema where name = ?", (name,))
    with path.open("r+b") as file:
        file.seek((page - 1) * PAGE_BYTES)
        file.write(b"\xff" * PAGE_BYTES)


async def fill(path: Path) -> None:
    async with Homing(f"sqlite:///{path}", provider="stub:", worker=False) as homing:
        mail = Email(to="ann@example.org", subject="Booked", text="See you")
        await homing.submit_many([mail] * 300)


async def test_a_damaged_page_raises_the_alarm_at_once_and_ends_readiness(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path, bell = tmp_path / "outbox.db", Bell()
    await fill(path)
    await asyncio.to_thread(overwrite_the_root_of, path, "homing_deliveries_ready")
    homing = Homing(f"sqlite:///{path}", provider="stub:", alarm=bell)
    app = application(homing, Settings(store=f"sqlite:///{path}"))
    transport = httpx2.ASGITransport(app=app)

    async with (
        app.router.lifespan_context(app),
        httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1:8025") as client,
    ):
        async with asyncio.timeout(BOUND_S):
            await bell.rang.wait()
        ready = await client.get("/readyz")

    assert bell.alerts[0].kind == "store_damaged"
    assert any("store_damaged" in line for line in caplog.messages)
    assert ready.status_code == 503
    assert "damage of the store stops the claims of route mail" in ready.json()["problems"]


async def test_damage_that_a_reader_meets_is_alerted_and_shown(tmp_path: Path) -> None:
    path, bell = tmp_path / "outbox.db", Bell()
    await fill(path)
    await asyncio.to_thread(overwrite_the_root_of, path, "homing_attempts")
    homing = Homing(f"sqlite:///{path}", provider="stub:", alarm=bell, worker=False)
    app = application(homing, Settings(store=f"sqlite:///{path}"))
    transport = httpx2.ASGITransport(app=app)

    async with (
        app.router.lifespan_context(app),
        httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1:8025") as client,
    ):
        before = (await client.get("/readyz")).json()
        [item] = (await client.get("/api/v1/deliveries?limit=1")).json()["items"]
        read = await client.get(f"/api/v1/deliveries/{item['delivery_id']}/attempts")
        async with asyncio.timeout(BOUND_S):
            await bell.rang.wait()
            after = await client.get("/readyz")
            while after.json() == before:  # the damage is noted after the alert
                after = await client.get("/readyz")

    assert before["status"] == "ok"
    assert read.status_code == 503
    assert after.status_code == 200
    assert after.json() == {
        "status": "degraded",
        "problems": ["damage was detected in the store: run `homing doctor`"],
    }
