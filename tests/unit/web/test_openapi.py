"""The OpenAPI file: what is checked in is what the code makes, and it leaves nothing out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx2
import pytest
from msgspec.structs import replace
from starlette.applications import Starlette
from starlette.routing import Mount, Route

from homing.engine.ops.labels import Label, LabelTable
from homing.providers.stub import StubProvider
from homing.runtime.app import Homing
from homing.runtime.mail_route import mail_route
from homing.web.api.listing import LIST_FIELDS
from homing.web.api.openapi import describe, document
from homing.web.api.operations import API
from homing.web.api.resources import Resource
from tests.unit.web.conftest import OPEN, Api, running

FILE = Path(__file__).parents[3] / "docs" / "openapi.json"
DOCUMENT: dict[str, Any] = describe()
OPERATIONS = [
    (path, method, operation)
    for path, operations in DOCUMENT["paths"].items()
    for method, operation in operations.items()
]


def test_the_file_is_what_the_code_makes() -> None:
    """To write it anew: python -m homing.web.api.openapi > docs/openapi.json"""
    assert FILE.read_bytes() == document()


async def test_every_route_is_in_it(api: Api) -> None:
    served = {
        (route.path, method.lower())
        for route in api.app.routes
        if isinstance(route, Route) and isinstance(route.endpoint, Resource)
        for method in route.endpoint.served
        if method != "HEAD"
    }
    described = {(path, method) for path, method, _ in OPERATIONS}
    assert described <= served
    # What is beside the API is the console: pages for people, described in its own guide.
    assert {each for each in served if each[0].startswith(API)} <= described


async def test_it_is_served_without_a_token(closed: Api) -> None:
    answer = await closed.client.get("/api/v1/openapi.json")
    assert (answer.status_code, answer.headers["content-type"]) == (200, "application/json")
    assert answer.content == document()


class TestServedDocument:
    """It describes the service that serves it."""

    @staticmethod
    async def fetch(client: httpx2.AsyncClient, mounted: str = "") -> dict[str, Any]:
        found: dict[str, Any] = (await client.get(f"{mounted}/api/v1/openapi.json")).json()
        return found

    async def test_it_asks_for_tokens_where_they_are_needed(self, api: Api, closed: Api) -> None:
        found = await self.fetch(api.client)
        assert found["security"] == []
        assert "401" not in found["paths"]["/api/v1/stats"]["get"]["responses"]
        found = await self.fetch(closed.client)
        assert found["security"] == [{"token": []}, {"session": []}]
        assert "401" in found["paths"]["/api/v1/stats"]["get"]["responses"]

    async def test_its_server_is_where_it_came_from(self, api: Api) -> None:
        assert (await self.fetch(api.client))["servers"] == [{"url": "/"}]
        outer = Starlette(routes=[Mount("/mail", app=api.app)])
        api.client._transport = httpx2.ASGITransport(app=outer)
        assert (await self.fetch(api.client, "/mail"))["servers"] == [{"url": "/mail"}]

    async def test_it_names_the_status_words_of_its_routes(self) -> None:
        labels = LabelTable((Label("queued", "pending"), Label("sent", "delivered")))
        route = replace(mail_route(StubProvider()), labels=labels)
        homing = Homing("memory:", routes=(route,), worker=False)
        async with running(OPEN, homing) as api:
            found = await self.fetch(api.client)
            schemas = found["components"]["schemas"]
            posted = (await api.post()).json()
            assert posted["status"] == "queued"
            assert "queued" in schemas["AcceptedOut"]["properties"]["status"]["enum"]
            assert "sent" in schemas["DeliveryView"]["properties"]["status"]["enum"]
            assert "queued" in schemas["BatchAnswer"]["properties"]["status"]["anyOf"][0]["enum"]
            [status] = [
                one["schema"]["enum"]
                for one in found["paths"]["/api/v1/deliveries"]["get"]["parameters"]
                if one["name"] == "status"
            ]
            for word in status:
                assert len(await api.listed(status=word)) == (word == "queued")

    async def test_it_leaves_out_what_is_not_served(self) -> None:
        async with running(OPEN, Homing("memory:", worker=False)) as api:
            found = await self.fetch(api.client)
            assert "post" not in found["paths"]["/api/v1/deliveries"]
            assert "/api/v1/deliveries/batch" not in found["paths"]


def test_every_reference_leads_somewhere() -> None:
    schemas = DOCUMENT["components"]["schemas"]
    text = json.dumps(DOCUMENT)
    names = {part.split('"')[0] for part in text.split("#/components/schemas/")[1:]}
    assert names <= schemas.keys()
    assert names >= {"DeliveryIn", "DeliveryView", "Problem"}


@pytest.mark.parametrize(("path", "method", "operation"), OPERATIONS)
def test_every_operation_is_described_whole(
    path: str, method: str, operation: dict[str, Any]
) -> None:
    assert operation["summary"].endswith(".")
    responses = operation["responses"]
    assert any(status.startswith("2") for status in responses)
    named = {part[1:-1] for part in path.split("/") if part.startswith("{")}
    given = {one["name"] for one in operation["parameters"] if one["in"] == "path"}
    assert given == named
    if operation.get("security") != []:
        assert {"401", "403", "503"} <= responses.keys()
        assert "WWW-Authenticate" in responses["401"]["headers"]
    if method == "post":
        assert operation["requestBody"]["required"]
        assert {"400", "413", "415", "422"} <= responses.keys()
    for status, response in responses.items():
        if int(status) >= 400 and path != "/readyz":
            assert list(response["content"]) == ["application/problem+json"]
        if status in ("503", "507") and path != "/readyz":
            assert "Retry-After" in response["headers"]


def test_it_names_every_field_of_a_list() -> None:
    parameters = DOCUMENT["paths"]["/api/v1/deliveries"]["get"]["parameters"]
    assert {one["name"] for one in parameters} == LIST_FIELDS


def test_the_key_is_a_required_header() -> None:
    parameters = DOCUMENT["paths"]["/api/v1/deliveries"]["post"]["parameters"]
    [key] = [one for one in parameters if one["in"] == "header"]
    assert (key["name"], key["required"]) == ("Idempotency-Key", True)
