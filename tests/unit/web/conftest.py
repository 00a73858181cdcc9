"""The REST application in this process, on a memory store with a clock in the test's hand."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import pytest

from homing.content.limits import Limits
from homing.providers.stub import StubProvider
from homing.runtime.app import Homing
from homing.runtime.mail_route import mail_route
from homing.settings import Settings
from homing.settings.tree import ServerSettings
from homing.testing.clocks import ManualClock
from homing.web.application import Application, application

OPEN = Settings(store="memory:")
# Nothing listens in these tests: the host only says that tokens are needed.
CLOSED = Settings(store="memory:", server=ServerSettings(host="192.0.2.1"))
TOKENS = Settings(store="memory:", server=ServerSettings(auth="token"))
ROLES = ("viewer", "sender", "operator", "admin")


class Api:
    """A client with the words of the API."""

    def __init__(
        self, client: httpx2.AsyncClient, homing: Homing, clock: ManualClock, app: Application
    ) -> None:
        self.client = client
        self.homing = homing
        self.clock = clock
        self.app = app
        self.tokens: dict[str, str] = {}

    async def post(self, key: str = "k-1", **fields: object) -> httpx2.Response:
        body = {"to": ["ann@example.org"], "subject": "Booked", "text": "See you", **fields}
        return await self.client.post(
            "/api/v1/deliveries", json=body, headers={"Idempotency-Key": key}
        )

    async def raw(self, body: bytes, key: str = "k-1", **headers: str) -> httpx2.Response:
        """A body as it is."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return await self.client.post(
            "/api/v1/deliveries",
            content=body,
            headers={"Idempotency-Key": key, "Content-Type": "application/json"} | named,
        )

    async def listed(self, **filters: str) -> list[dict[str, Any]]:
        answer = await self.client.get("/api/v1/deliveries", params=filters)
        assert answer.status_code == 200, answer.text
        items: list[dict[str, Any]] = answer.json()["items"]
        return items

    async def work(self) -> None:
        """Attempt all that is due now."""
        await self.homing.engine.run_until_idle()

    async def dead(self, key: str = "dead-1", **fields: object) -> str:
        """A delivery that was refused for good."""
        answer = await self.post(key, to=["bounce@stub.test"], **fields)
        await self.work()
        return str(answer.json()["delivery_id"])


@asynccontextmanager
async def running(settings: Settings, homing: Homing | None = None) -> AsyncIterator[Api]:
    """The application, started; where tokens are needed, with one for each role."""
    clock = ManualClock()
    provider = StubProvider()
    limits = Limits(
        body_bytes=settings.limits.body_bytes, attachments_bytes=settings.limits.attachments_bytes
    )
    route = mail_route(provider, limits=limits)
    homing = homing or Homing(
        "memory:", provider=provider, routes=(route,), worker=False, clock=clock
    )
    tokens = {}
    if settings in (CLOSED, TOKENS):
        tokens = {role: await homing.tokens.make(f"the {role}", role) for role in ROLES}
    app = application(homing, settings)
    # As a server sees it: an error that nobody answered for is a bug of ours.
    transport = httpx2.ASGITransport(app=app, raise_app_exceptions=True)
    async with (
        app.router.lifespan_context(app),
        httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1:8025") as client,
    ):
        api = Api(client, homing, clock, app)
        api.tokens = tokens
        yield api


@pytest.fixture
async def api() -> AsyncIterator[Api]:
    async with running(OPEN) as api:
        yield api


@pytest.fixture
async def closed() -> AsyncIterator[Api]:
    """As on an address of the world: nothing without a token."""
    async with running(CLOSED) as api:
        yield api
