"""The REST application in this process, on a memory store with a clock in the test's hand."""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx2
import pytest

from homing.app import Homing
from homing.mailing import mail_route
from homing.providers.stub import StubProvider
from homing.settings import Settings
from homing.testing.clocks import ManualClock
from homing.web.application import application


class Api:
    """A client with the words of the API."""

    def __init__(self, client: httpx2.AsyncClient, homing: Homing, clock: ManualClock) -> None:
        self.client = client
        self.homing = homing
        self.clock = clock

    async def post(self, key: str = "k-1", **fields: object) -> httpx2.Response:
        body = {"to": ["ann@example.org"], "subject": "Booked", "text": "See you", **fields}
        return await self.client.post(
            "/api/v1/deliveries", json=body, headers={"Idempotency-Key": key}
        )

    async def work(self) -> None:
        """Attempt all that is due now."""
        await self.homing.engine.run_until_idle()

    async def dead(self, key: str = "dead-1") -> str:
        """A delivery that was refused for good."""
        answer = await self.post(key, to=["bounce@stub.test"])
        await self.work()
        return str(answer.json()["delivery_id"])


@pytest.fixture
def settings() -> Settings:
    return Settings(store="memory:")


@pytest.fixture
async def api(settings: Settings) -> AsyncIterator[Api]:
    clock = ManualClock()
    provider = StubProvider()
    homing = Homing(
        "memory:",
        provider=provider,
        routes=(mail_route(provider),),
        worker=False,
        clock=clock,
    )
    app = application(homing, settings)
    transport = httpx2.ASGITransport(app=app)
    async with (
        app.router.lifespan_context(app),
        httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1:8025") as client,
    ):
        yield Api(client, homing, clock)
