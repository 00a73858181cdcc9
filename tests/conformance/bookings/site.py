"""The booking application over a real SQLite file, a clock set by hand and a scripted provider."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import httpx2

from homing import Homing
from homing.plugins.store import store_for
from homing.plugins.value import Service
from homing.ports import InFile
from homing.settings import Settings
from homing.testing.clocks import ManualClock
from homing_systems.bookings.app.application import create_app
from homing_systems.bookings.app.desk import DeleteCalendarEvent
from homing_systems.bookings.app.settings import BookingsSettings
from homing_systems.bookings.plugin import PLUGIN
from homing_systems.bookings.route import bookings_route
from tests.conformance.world import Answer, ScriptedProvider

PASSWORD = "a host's password"
SENDER = "Host <host@example.org>"
BASE = "http://127.0.0.1:8003"
ANN = {
    "name": "Ann Lee",
    "email": "ann@example.org",
    "start": "2026-03-02T10:00:00Z",
    "title": "Call",
}
BOUND_S = 20.0


class Site:
    """One process of the application; what is due is worked on when a test says so."""

    def __init__(
        self,
        folder: Path,
        clock: ManualClock,
        *script: Answer,
        mail: bool = True,
        settings: BookingsSettings | None = None,
        delete_calendar_event: DeleteCalendarEvent | None = None,
    ) -> None:
        self.path = folder / "bookings.db"
        self.clock = clock
        self.smtp = ScriptedProvider(clock, script)
        general = Settings(store=f"sqlite:///{self.path}", sender=SENDER)
        self.homing = Homing(
            store_for(general, PLUGIN),
            routes=[bookings_route(self.smtp, sender=SENDER)],
            layouts=PLUGIN.layouts,
            clock=clock,
            worker=False,
        )
        assert isinstance(self.homing.store, InFile)
        own = settings or BookingsSettings(admin_password=PASSWORD)
        self.service = Service(self.homing, own, general)
        self.app = create_app(self.service, mail=mail, delete_calendar_event=delete_calendar_event)
        self.client = httpx2.AsyncClient(
            transport=httpx2.ASGITransport(app=self.app), base_url=BASE
        )

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Site]:
        async with self.client, self.app.router.lifespan_context(self.app):
            yield self

    async def log_in(self) -> None:
        answer = await self.client.post("/api/admin/login", json={"password": PASSWORD})
        assert answer.status_code == 200

    async def book(self, **changes: Any) -> str:
        answer = await self.client.post("/api/book", json={**ANN, **changes})
        assert answer.status_code == 200, answer.text
        booking_id: str = answer.json()["id"]
        return booking_id

    async def cancel(self, booking_id: str) -> httpx2.Response:
        return await self.client.post(f"/api/admin/bookings/{booking_id}/cancel")

    async def tried(self, calls: int) -> None:
        """Until so many sends were begun and each has its outcome."""

        async def done() -> bool:
            busy = self.sql("select count(*) from homing_deliveries where state = 'in_flight'")
            return len(self.smtp.calls) >= calls and busy == [(0,)]

        await until(done)

    async def work_after(self, wait_s: float) -> None:
        self.clock.advance(wait_s)
        await self.homing.engine.run_until_idle()

    def sql(self, query: str, *given: object) -> list[tuple[Any, ...]]:
        """As any SQLite client would ask."""
        with closing(sqlite3.connect(self.path, timeout=BOUND_S)) as connection, connection:
            return connection.execute(query, given).fetchall()

    def rows(self) -> list[dict[str, Any]]:
        with closing(sqlite3.connect(self.path, timeout=BOUND_S)) as connection:
            connection.row_factory = sqlite3.Row
            found = connection.execute("select * from email_outbox order by created_at, id")
            return [dict(row) for row in found]

    def row(self) -> dict[str, Any]:
        [row] = self.rows()
        return row


async def until(holds: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(BOUND_S):
        while not await holds():  # noqa: ASYNC110 - another thread or process makes it true
            await asyncio.sleep(0.005)
