"""The OpenAPI file: what is checked in is what the code makes, and it leaves nothing out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from starlette.routing import Route

from homing.web.openapi import describe, document
from homing.web.resources import Resource
from tests.unit.web.conftest import Api

FILE = Path(__file__).parents[3] / "docs" / "openapi.json"
DOCUMENT: dict[str, Any] = describe()
OPERATIONS = [
    (path, method, operation)
    for path, operations in DOCUMENT["paths"].items()
    for method, operation in operations.items()
]


def test_the_file_is_what_the_code_makes() -> None:
    """To write it anew: python -m homing.web.openapi > docs/openapi.json"""
    assert FILE.read_bytes() == document()


async def test_every_route_is_in_it(api: Api) -> None:
    served = {
        (route.path, method.lower())
        for route in api.app.routes
        if isinstance(route, Route) and isinstance(route.endpoint, Resource)
        for method in route.endpoint.served
        if method != "HEAD"
    }
    assert served == {(path, method) for path, method, _ in OPERATIONS}


async def test_it_is_served(api: Api) -> None:
    answer = await api.client.get("/api/v1/openapi.json")
    assert (answer.status_code, answer.headers["content-type"]) == (200, "application/json")
    assert answer.content == document()


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


def test_the_key_is_a_required_header() -> None:
    parameters = DOCUMENT["paths"]["/api/v1/deliveries"]["post"]["parameters"]
    [key] = [one for one in parameters if one["in"] == "header"]
    assert (key["name"], key["required"]) == ("Idempotency-Key", True)
