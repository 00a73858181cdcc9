"""T8, T9: every route of the application, as it stands, is behind its guard.

The routes are read from the running application, not from our own table: one that is added
past the table is found here too.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Mount, Route

from homing.engine.access.tokens import RIGHTS
from homing.ports import Query
from tests.unit.web.conftest import CLOSED, OPEN, ROLES, Api, running

# What anybody may ask: health, the API's own description, and the look of the console.
PUBLIC = {
    ("GET", "/healthz"),
    ("GET", "/readyz"),
    ("GET", "/api/v1/openapi.json"),
    ("GET", "/static/console.css"),
    ("GET", "/static/console.js"),
    ("GET", "/static/icon.svg"),
    ("GET", "/sign-in"),
    ("POST", "/sign-in"),
    ("POST", "/api/v1/sign-in"),
}
# For roles that see personal data.
PERSONAL = {
    "/api/v1/deliveries/{delivery_id}/content",
    "/deliveries/{delivery_id}/html",
    "/deliveries/{delivery_id}/source",
    "/deliveries/{delivery_id}/files/{number}",
}
SAFE = {"GET", "HEAD"}
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
RIGHT_OF = {
    "/api/v1/deliveries": "send",
    "/api/v1/deliveries/batch": "send",
    "/api/v1/sign-out": "read",
    "/api/v1/users": "administer",
    "/api/v1/tokens": "administer",
    "/api/v1/settings": "administer",
    "/api/v1/doctor": "administer",
    "/api/v1/routes/{route}/test": "send",
    "/sign-out": "read",
    "/access": "administer",
    "/settings": "administer",
    "/doctor": "administer",
    "/outbox/samples": "send",
    "/routes/{route}/test": "send",
}


@pytest.fixture
async def closed() -> AsyncIterator[Api]:
    async with running(CLOSED) as api:
        api.app.live.end()  # a stream of events would never be answered to its end
        yield api


@pytest.fixture
async def opened() -> AsyncIterator[Api]:
    async with running(OPEN) as api:
        api.app.live.end()
        yield api


def paths(api: Api) -> list[str]:
    found: list[str] = []
    for route in api.app.routes:
        assert isinstance(route, Route | Mount), f"{route} cannot be looked into"
        inner = [route] if isinstance(route, Route) else route.routes
        prefix = "" if isinstance(route, Route) else route.path
        found += [prefix + one.path for one in inner if isinstance(one, Route)]
    return found


async def answered(api: Api, **headers: str) -> dict[tuple[str, str], int]:
    """The status of every (method, path) that exists at all, called with these headers."""
    found: dict[tuple[str, str], int] = {}
    for path in paths(api):
        url = path.replace("{delivery_id}", "x").replace("{replay_id}", "x")
        url = url.replace("{route}", "mail")
        for method in METHODS:
            answer = await api.client.request(method, url, headers=headers, json={})
            if answer.status_code != 405:
                found[method, path] = answer.status_code
    return found


async def stored(api: Api) -> tuple[int, list[Any]]:
    counted = await api.homing.store.count(Query())
    facts = [await api.homing.store.facts(kind) for kind in ("audit", "paused", "bulk_actions")]
    return sum(counted.values()), facts


async def unguarded(api: Api, **headers: str) -> set[tuple[str, str]]:
    """What was let through to its endpoint."""
    statuses = await answered(api, **headers)
    return {
        (method, path)
        for (method, path), status in statuses.items()
        if status not in (401, 403) and not {("GET", path), ("POST", path)} & PUBLIC
    }


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Authorization": "Bearer hmg_" + "0" * 48},
        {"Authorization": "Basic aG1nOmhtZw=="},
        {"Cookie": "session=admin"},
    ],
)
async def test_without_a_token_nothing_is_reached(closed: Api, headers: dict[str, str]) -> None:
    before = await stored(closed)
    assert await unguarded(closed, **headers) == set()
    assert await stored(closed) == before


async def test_the_public_ones_change_nothing_and_are_all(closed: Api) -> None:
    statuses = await answered(closed)
    let_through = {key for key, status in statuses.items() if status not in (401, 403)}
    assert {key for key in let_through if key[0] != "HEAD"} == PUBLIC


async def test_each_role_reaches_what_its_rights_allow_and_no_more(closed: Api) -> None:
    for role in ROLES:
        before = await stored(closed)
        statuses = await answered(closed, Authorization=f"Bearer {closed.tokens[role]}")
        for (method, path), status in statuses.items():
            if {("GET", path), ("POST", path)} & PUBLIC:
                continue
            right = RIGHT_OF.get(path, "read" if method in SAFE else "operate")
            if path == "/api/v1/deliveries" and method in SAFE:
                right = "read"
            allowed = right in RIGHTS[role]  # type: ignore[index] # a role by its name
            allowed = allowed and not (path in PERSONAL and role == "viewer")
            assert (status == 403) != allowed, (role, method, path, status)
        assert await stored(closed) == before


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Host": "evil.example"},
        {"X-Forwarded-For": "203.0.113.7"},
    ],
)
async def test_the_open_mode_is_open_to_no_web_page(opened: Api, headers: dict[str, str]) -> None:
    before = await stored(opened)
    assert await unguarded(opened, **headers) == set()
    assert await stored(opened) == before


async def test_no_unsafe_route_answers_a_form(opened: Api) -> None:
    """A page of another site can post forms and plain text without being asked; never JSON."""
    before = await stored(opened)
    for path in paths(opened):
        url = path.replace("{delivery_id}", "x").replace("{route}", "mail")
        for kind in ("application/x-www-form-urlencoded", "multipart/form-data", "text/plain"):
            headers = {"Content-Type": kind, "Idempotency-Key": "k"}
            answer = await opened.client.post(url, content=b"actor=a&reason=b", headers=headers)
            # The console takes forms, of its own pages alone.
            refused = (405, 415) if path.startswith("/api/") else (400, 405, 415)
            assert answer.status_code in refused, (path, kind)
    assert await stored(opened) == before


async def test_a_route_without_a_guard_would_be_found(closed: Api) -> None:
    async def wipe(request: Request) -> Response:
        return PlainTextResponse("gone")

    closed.app.routes.append(Route("/api/v1/wipe", wipe, methods=["POST"]))
    closed.app.routes.append(Mount("/admin", routes=[Route("/wipe", wipe, methods=["DELETE"])]))
    assert await unguarded(closed) == {("POST", "/api/v1/wipe"), ("DELETE", "/admin/wipe")}


async def test_foreign_and_absent_ids_cannot_be_told_apart(opened: Api) -> None:
    """T9: an id that was never given and one that is not an id at all have the same answer."""
    bodies = set()
    for delivery_id in ("01a1e000-0000-7000-8000-000000000000", "x", "' or 1=1", "%00", "a" * 9000):
        for part in ("", "/attempts", "/why", "/audit"):
            answer = await opened.client.get(f"/api/v1/deliveries/{delivery_id}{part}")
            assert answer.status_code == 404
            bodies.add(answer.text)
    assert len(bodies) == 1


async def test_ids_cannot_be_guessed(opened: Api) -> None:
    """74 random bits after the time of their making."""
    ids = [(await opened.post(f"k{number}")).json()["delivery_id"] for number in range(200)]
    assert len({delivery_id[19:] for delivery_id in ids}) == 200
    assert all(delivery_id[14] == "7" for delivery_id in ids)
