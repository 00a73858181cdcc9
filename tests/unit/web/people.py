"""Applications for people: with a user of each role, and a client per browser."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx2
import pytest

from homing.engine.access import passwords
from homing.providers.stub import StubProvider
from homing.runtime.app import Homing
from homing.runtime.mail_route import mail_route
from homing.settings import Settings
from homing.settings.tree import ServerSettings
from homing.testing.clocks import ManualClock
from homing.web.application import application
from tests.unit.web.conftest import Api

PASSWORD = "correct horse battery"
PEOPLE = ("viewer", "operator", "admin")
SESSIONS = ServerSettings(auth="session")
PROXY = ServerSettings(
    auth="proxy",
    trusted_proxies=("10.1.2.3", "fd00::/8"),
    proxy_header="X-Forwarded-User",
    public_url="https://mail.example.org",
)


@pytest.fixture(autouse=True)
def cheap_passwords(monkeypatch: pytest.MonkeyPatch) -> None:
    """The real cost is for guessers."""
    monkeypatch.setattr(passwords, "COST", passwords.Cost(log_n=4, r=1, p=1))


@asynccontextmanager
async def with_people(
    server: ServerSettings = SESSIONS, peer: str = "127.0.0.1"
) -> AsyncIterator[Api]:
    clock = ManualClock()
    provider = StubProvider()
    homing = Homing("memory:", routes=(mail_route(provider),), worker=False, clock=clock)
    for role in PEOPLE:
        await homing.users.add(f"the {role}", role, PASSWORD)
    token = await homing.tokens.make("shop", "admin")
    app = application(homing, Settings(store="memory:", server=server))
    async with app.router.lifespan_context(app):
        api = Api(browser(app, peer), homing, clock, app)
        api.tokens["admin"] = token
        async with api.client:
            yield api


def browser(
    app: object, peer: str = "127.0.0.1", base: str = "http://127.0.0.1:8025"
) -> httpx2.AsyncClient:
    """A client with a cookie jar of its own, at this address."""
    transport = httpx2.ASGITransport(app=app, raise_app_exceptions=True, client=(peer, 4711))  # type: ignore[arg-type] # any ASGI application
    return httpx2.AsyncClient(transport=transport, base_url=base)


async def sign_in(
    client: httpx2.AsyncClient, name: str = "the operator", password: str = PASSWORD
) -> httpx2.Response:
    """Then the client has the cookie, and the CSRF token as a header of all its requests."""
    answer = await client.post("/api/v1/sign-in", json={"name": name, "password": password})
    if answer.status_code == 200:
        client.headers["X-CSRF-Token"] = answer.json()["csrf_token"]
    return answer
