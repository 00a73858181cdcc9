"""The web table of a plugin: its endpoints, who may call them, and what stands beside them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import pytest

from homing.domain.errors import InvalidRequest, SettingsError
from homing.plugins.value import (
    Access,
    Endpoint,
    HttpRequest,
    HttpResponse,
    NoSettings,
    Service,
    Web,
)
from homing.runtime.app import Homing
from homing.settings import Settings
from homing.settings.tree import ServerSettings
from homing.web.application import application

WORLD = Settings(store="memory:", server=ServerSettings(host="0.0.0.0"))


async def echo(service: Service[Any], request: HttpRequest) -> HttpResponse:
    if request.query.get("refuse"):
        raise InvalidRequest("refuse", "was asked for")
    return HttpResponse(
        status=201,
        json={
            "name": request.path_params.get("name"),
            "query": request.query,
            "kind": request.headers.get("content-type"),
            "body": request.body.decode(),
            "caller": request.caller,
        },
        headers={"X-Own": "yes"},
    )


async def page(service: Service[Any], request: HttpRequest) -> HttpResponse:
    return HttpResponse(body=b"<p>hello</p>", content_type="text/html")


ENDPOINTS = (
    Endpoint(method="POST", path="/things/{name}", handle=echo, max_body_bytes=10),
    Endpoint(method="GET", path="/page", handle=page, right="public"),
)


@asynccontextmanager
async def serving(
    access: Access, settings: Settings | None = None, *, standard: bool = True
) -> AsyncIterator[tuple[httpx2.AsyncClient, Homing]]:
    settings = settings or Settings(store="memory:")
    homing = Homing("memory:", worker=False)
    web = Web(access=access, endpoints=ENDPOINTS, standard=standard)
    service = Service(homing, NoSettings(), settings)
    app = application(homing, settings, web=web, service=service)
    transport = httpx2.ASGITransport(app=app)
    async with (
        app.router.lifespan_context(app),
        httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client,
    ):
        yield client, homing


async def test_a_handler_is_given_the_whole_request() -> None:
    async with serving("tokens") as (client, _):
        answer = await client.post(
            "/things/lamp?color=red", content=b"on", headers={"Content-Type": "text/plain"}
        )
        assert (answer.status_code, answer.headers["x-own"]) == (201, "yes")
        assert answer.json() == {
            "name": "lamp",
            "query": {"color": "red"},
            "kind": "text/plain",
            "body": "on",
            "caller": None,
        }
        shown = await client.get("/page")
        assert (shown.text, shown.headers["content-type"]) == ("<p>hello</p>", "text/html")
        assert shown.headers["x-content-type-options"] == "nosniff"


async def test_refusals_and_limits_are_answered_as_problems() -> None:
    async with serving("tokens") as (client, _):
        refused = await client.post("/things/lamp?refuse=yes")
        assert (refused.status_code, refused.json()["field"]) == (422, "refuse")
        assert refused.headers["content-type"] == "application/problem+json"
        assert (await client.post("/things/lamp", content=b"x" * 11)).status_code == 413
        wrong = await client.get("/things/lamp")
        assert (wrong.status_code, wrong.headers["allow"]) == (405, "POST")


async def test_standard_routes_stand_beside_it_or_not() -> None:
    async with serving("tokens") as (client, _):
        assert (await client.get("/api/v1/deliveries")).status_code == 200
        assert (await client.get("/healthz")).status_code == 200
        # There is no mail route here, so nothing takes e-mails.
        assert (await client.post("/api/v1/deliveries", json={})).status_code == 405
    async with serving("tokens", standard=False) as (client, _):
        assert (await client.get("/api/v1/deliveries")).status_code == 404
        assert (await client.get("/healthz")).status_code == 404
        assert (await client.get("/page")).status_code == 200


async def test_tokens_are_needed_outside_loopback() -> None:
    with pytest.raises(SettingsError, match="there are no API tokens"):
        async with serving("tokens", WORLD):
            pass  # not reached


async def test_trusted_is_open_to_whoever_reaches_it() -> None:
    async with serving("trusted", WORLD, standard=False) as (client, _):
        answer = await client.post("/things/lamp", headers={"Host": "shop.example.org"})
        assert answer.status_code == 201


def test_a_path_that_is_served_already_is_refused() -> None:
    homing = Homing("memory:", worker=False)
    taken = Endpoint(method="GET", path="/healthz", handle=page)
    with pytest.raises(ValueError, match="GET /healthz is served already"):
        application(
            homing,
            Settings(),
            web=Web(access="tokens", endpoints=(taken,)),
            service=Service(homing, NoSettings(), Settings()),
        )
