"""The front door: every path, every method and every mishap is answered alike."""

from __future__ import annotations

import httpx2
import pytest
from starlette.applications import Starlette
from starlette.routing import Mount
from starlette.types import Message

from homing.runtime.app import Homing
from homing.web.access.auth import AccessCheck
from homing.web.api.operations import OPERATIONS
from homing.web.api.resources import resources
from homing.web.application import application
from homing.web.http.answers import SECURITY_HEADERS
from tests.unit.web.conftest import CLOSED, OPEN, Api, running

PLAIN = sorted({operation.path for operation in OPERATIONS if "{" not in operation.path})


@pytest.mark.parametrize("path", sorted({operation.path for operation in OPERATIONS}))
async def test_other_methods_are_405_and_say_which_are_allowed(api: Api, path: str) -> None:
    served = {operation.method for operation in OPERATIONS if operation.path == path}
    allowed = sorted(served | ({"HEAD"} if "GET" in served else set()))
    for method in {"GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "BREW"} - served:
        answer = await api.client.request(method, path.replace("{", "").replace("}", ""))
        assert answer.status_code == 405
        assert answer.headers["allow"] == ", ".join(allowed)
        assert answer.headers["content-type"] == "application/problem+json"


@pytest.mark.parametrize(
    "path",
    [
        "/nope",
        "/api/v1",
        "/api/v1/",
        "/api/v1/deliveries/",
        "/api/v1/deliveries/x/",
        "/api/v1/deliveries/x/y/z",
        "/static/",
        "/static/../console.css",
        "/healthz/",
        "/api/v1/%00",
    ],
)
async def test_unknown_paths_are_404(api: Api, path: str) -> None:
    answer = await api.client.get(path)
    assert answer.status_code == 404
    assert answer.headers["content-type"] == "application/problem+json"


async def test_the_security_headers_stand_on_every_answer(api: Api) -> None:
    answers = [
        await api.post("k"),
        await api.post("k", subject="another"),
        await api.post("l", to=[]),
        await api.raw(b"{"),
        await api.client.get("/nope"),
        await api.client.delete("/api/v1/deliveries"),
        await api.client.get("/api/v1/stats", headers={"Host": "evil.example"}),
        await api.client.get("/api/v1/deliveries?colour=red"),
        *[await api.client.get(path) for path in PLAIN if not path.endswith("events")],
    ]
    for answer in answers:
        for name, value in SECURITY_HEADERS:
            assert answer.headers[name.decode()] == value.decode(), answer.request.url
    policy = answers[0].headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy


async def test_head_answers_like_get_without_a_body(api: Api) -> None:
    for path in ("/api/v1/stats", "/", "/healthz"):
        head, get = await api.client.head(path), await api.client.get(path)
        assert head.status_code == get.status_code
        assert head.headers["content-type"] == get.headers["content-type"]


async def test_a_caller_who_leaves_is_answered_nothing(api: Api) -> None:
    sent: list[Message] = []

    async def receive() -> Message:
        return {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        sent.append(message)

    headers = [
        (b"host", b"localhost"),
        (b"content-type", b"application/json"),
        (b"idempotency-key", b"k"),
    ]
    scope = {
        "type": "http",
        "method": "POST",
        "scheme": "http",
        "path": "/api/v1/deliveries",
        "root_path": "",
        "query_string": b"",
        "headers": headers,
    }
    await api.app(scope, receive, send)
    assert sent == []
    assert await api.listed() == []


async def test_a_large_body_that_is_refused_is_not_read_for_the_next_request(api: Api) -> None:
    body = b"x" * 100_000
    refused = await api.client.post("/api/v1/deliveries", content=body)
    assert refused.headers["connection"] == "close"
    short = await api.client.post("/api/v1/deliveries", content=b"x")
    assert "connection" not in short.headers


async def test_it_can_be_mounted_into_another_application() -> None:
    async with running(OPEN) as api:
        outer = Starlette(routes=[Mount("/mail", app=api.app)])
        api.client._transport = httpx2.ASGITransport(app=outer)
        answer = await api.client.get("/mail/api/v1/stats")
        assert answer.status_code == 200
        posted = await api.client.post(
            "/mail/api/v1/deliveries",
            json={"to": ["ann@example.org"], "text": "x"},
            headers={"Idempotency-Key": "k"},
        )
        assert posted.status_code == 202
        assert (await api.client.get("/mail/nope")).status_code == 404


def test_an_operation_without_its_endpoint_stops_the_start() -> None:
    access_check = AccessCheck(Homing("memory:"), CLOSED.server, steady_s=lambda: 0.0)
    with pytest.raises(KeyError):
        resources(OPERATIONS, {}, access_check)


async def test_the_worker_gets_the_grace_that_was_set(monkeypatch: pytest.MonkeyPatch) -> None:
    homing = Homing("memory:", provider="stub:", worker=False)
    given: list[float] = []
    stop = homing.stop

    async def remember(grace_s: float = -1.0) -> None:
        given.append(grace_s)
        await stop(grace_s)

    monkeypatch.setattr(homing, "stop", remember)
    app = application(homing, OPEN)
    async with app.router.lifespan_context(app):
        pass
    assert given == [OPEN.shutdown_grace.value]


async def test_a_refused_start_leaves_nothing_running() -> None:
    homing = Homing("memory:", provider="stub:")
    app = application(homing, CLOSED)
    with pytest.raises(Exception, match=r"server\.host"):
        async with app.router.lifespan_context(app):
            pass
    assert homing._engine is None
