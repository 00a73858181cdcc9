"""A real `homing bookings serve` process and a real Chromium, and rows of the outbox to show."""

from __future__ import annotations

import socket
import sqlite3
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
from playwright.async_api import Browser, Page, expect

from homing import Homing
from homing.plugins.value import Service
from homing.providers.stub import StubProvider
from homing.settings import Settings
from homing_systems.bookings.app.settings import BookingsSettings
from homing_systems.bookings.outbox import insert_outbox_entry
from homing_systems.bookings.plugin import PLUGIN
from homing_systems.bookings.record import OutboxEntry, OutboxStatus
from homing_systems.bookings.route import bookings_route
from tests.servers import free_port
from tests.unit.cli.programs import started, until

PASSWORD = "open sesame"
FAR = "2099-01-01T00:00:00.000Z"
WAIT_MS = 30_000
# FastAPI is slow to import, and a busy machine slower still.
START_S = 90.0
REFRESH_MS = 5_000
TABLES = (
    "homing_deliveries",
    "homing_records",
    "homing_contents",
    "homing_recipients",
    "homing_attempts",
    "homing_keys",
    "homing_counts",
    "bookings",
    "email_outbox",
)

expect.set_options(timeout=WAIT_MS)


@dataclass(frozen=True)
class App:
    url: str
    database: Path

    async def insert(self, *entries: OutboxEntry) -> None:
        """By another process's Homing on the same file, as far as the server can tell."""
        route = bookings_route(StubProvider(), sender="host@example.org")
        async with Homing(
            f"sqlite:///{self.database}", routes=[route], layouts=PLUGIN.layouts, worker=False
        ) as homing:
            service = Service(homing, BookingsSettings(), Settings())
            for each in entries:
                assert await insert_outbox_entry(service, each) is None

    def clear(self) -> None:
        """As in a new file: starting a server for each test takes longer than the test."""
        with closing(sqlite3.connect(self.database, timeout=WAIT_MS / 1000)) as connection:
            for table in TABLES:
                connection.execute(f"delete from {table}")
            connection.execute("delete from homing_facts where kind = 'foreign_row'")
            connection.commit()

    def rows(self) -> list[dict[str, Any]]:
        """What a plain SQLite client sees in `email_outbox`."""
        with closing(sqlite3.connect(self.database)) as connection:
            connection.row_factory = sqlite3.Row
            return [dict(row) for row in connection.execute("select * from email_outbox")]


def pending(name: str, **fields: Any) -> OutboxEntry:
    """Due in a far future, so that no worker touches it."""
    given = {"next_retry_at": FAR, "created_at": "2026-02-23T10:00:00.000Z", **fields}
    return OutboxEntry(
        id=name,
        to_address=f"{name}@example.org",
        to_name=name.title(),
        subject=f"Booked: call with {name}",
        body="See you Monday",
        **given,
    )


def failed(name: str, **fields: Any) -> OutboxEntry:
    given = {"attempts": 5, "last_error": "550 no such user", **fields}
    return pending(name, status=OutboxStatus.FAILED, **given)


@contextmanager
def serving(folder: Path, provider: str) -> Iterator[App]:
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    database = folder / "app.db"
    settings = {
        "HOMING_STORE": f"sqlite:///{database}",
        "HOMING_PROVIDER": provider,
        "HOMING_SENDER": "host@example.org",
        "HOMING_SHUTDOWN_GRACE": "1s",
        "BOOKINGS_ADMIN_PASSWORD": PASSWORD,
    }

    def is_ready() -> bool:
        assert program.process.poll() is None, program.said()
        try:
            return httpx2.get(url).status_code == 200
        except httpx2.TransportError:
            return False

    command = ["-m", "homing", "bookings", "serve", "--port", str(port)]
    with started(folder, command, **settings) as program:
        until(is_ready, within_s=START_S, what="bookings serve")
        yield App(url, database)


@contextmanager
def silent_smtp() -> Iterator[str]:
    """A mail server that takes connections and never says a word."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield f"smtp://127.0.0.1:{listener.getsockname()[1]}?tls=none"


@asynccontextmanager
async def visiting(browser: Browser, app: App, **options: Any) -> AsyncIterator[Page]:
    """A page in a new browser profile; a script error or a breach of the policy fails the test."""
    context = await browser.new_context(base_url=app.url, **options)
    context.set_default_timeout(WAIT_MS)
    page = await context.new_page()
    problems: list[str] = []
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on(
        "console",
        lambda line: problems.append(line.text) if "Content Security" in line.text else None,
    )
    try:
        yield page
    finally:
        await context.close()
    assert problems == []


async def log_in(page: Page) -> None:
    await page.goto("/admin/login")
    await page.get_by_label("Password").fill(PASSWORD)
    await page.get_by_role("button", name="Log in").click()
    await expect(page.get_by_role("heading", name="Dashboard")).to_be_visible()


async def fill_booking(page: Page, *, title: str = "Intro call") -> None:
    await page.goto("/")
    await page.locator(".slot:not(.taken)").first.click()
    await page.get_by_label("Your name").fill("Ann Lee")
    await page.get_by_label("Email address").fill("ann@example.org")
    await page.get_by_label("What is the meeting about?").fill(title)


async def book(page: Page, *, title: str = "Intro call") -> None:
    await fill_booking(page, title=title)
    await page.get_by_role("button", name="Book the meeting").click()
