"""Live events: everybody hears what happens, nobody is waited for, who leaves is forgotten."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from starlette.types import Message

from homing.web.api.live import MAX_LISTENERS, MAX_WAITING, Listener
from homing.web.application import Application
from tests.unit.web.conftest import Api


class Ear:
    """One connection to /events, spoken to as a server would."""

    def __init__(self, app: Application, query: bytes = b"", method: str = "GET") -> None:
        self.sent: list[Message] = []
        self.heard = b""
        self.gone = asyncio.Event()
        self.reads = asyncio.Event()
        self.reads.set()
        self._news = asyncio.Event()
        scope = {
            "type": "http",
            "method": method,
            "scheme": "http",
            "root_path": "",
            "path": "/api/v1/events",
            "query_string": query,
            "headers": [(b"host", b"127.0.0.1")],
        }
        self.task = asyncio.ensure_future(app(scope, self._receive, self._send))

    async def _receive(self) -> Message:
        await self.gone.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Message) -> None:
        await self.reads.wait()
        self.sent.append(message)
        self.heard += message.get("body", b"")
        self._news.set()

    async def until(self, words: bytes) -> None:
        async with asyncio.timeout(30):
            while words not in self.heard:
                self._news.clear()
                await self._news.wait()

    @property
    def status(self) -> int:
        return int(self.sent[0]["status"])

    def events(self) -> list[dict[str, Any]]:
        blocks = self.heard.decode().split("\n\n")
        lines = [line for block in blocks for line in block.split("\n")]
        return [json.loads(line[6:]) for line in lines if line.startswith("data: ")]


async def test_every_transition_is_heard(api: Api) -> None:
    ear = Ear(api.app)
    await ear.until(b": homing")
    assert ear.sent[0]["status"] == 200
    headers = dict(ear.sent[0]["headers"])
    assert headers[b"content-type"] == b"text/event-stream; charset=utf-8"
    assert headers[b"cache-control"] == b"no-store"
    delivery_id = await api.dead()
    await ear.until(b'"state":"failed"')
    last = ear.events()[-1]
    assert (last["transition"], last["delivery_id"]) == ("fail", delivery_id)
    assert (last["route"], last["error_class"]) == ("mail", "recipient_refused")
    assert b"stub.test" not in ear.heard
    ear.gone.set()
    await ear.task


async def test_who_leaves_is_forgotten(api: Api) -> None:
    ears = [Ear(api.app) for _ in range(5)]
    for ear in ears:
        await ear.until(b": homing")
    assert api.app.live.listeners == 5
    for ear in ears:
        ear.gone.set()
    await asyncio.gather(*(ear.task for ear in ears))
    assert api.app.live.listeners == 0
    await api.dead()


async def test_who_leaves_while_nothing_can_be_sent_is_forgotten_too(api: Api) -> None:
    ear = Ear(api.app)
    await ear.until(b": homing")
    ear.reads.clear()
    await api.dead()
    ear.gone.set()
    await ear.task
    assert api.app.live.listeners == 0


async def test_a_slow_listener_misses_events_and_is_told_how_many() -> None:
    listener = Listener(None)
    for number in range(MAX_WAITING + 7):
        listener.put(b"event %d\n\n" % number)
    lines = await listener.lines()
    assert lines.count(b"event ") == MAX_WAITING
    assert lines.endswith(b'event: missed\ndata: {"count":7}\n\n')
    listener.put(b"next\n\n")
    assert await listener.lines() == b"next\n\n"


async def test_silence_is_broken_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that proxies keep the line open and both ends notice when it is cut."""
    monkeypatch.setattr("homing.web.api.live.KEEP_ALIVE_S", 0.0)
    assert await Listener(None).lines() == b": still here\n\n"


async def test_listeners_are_bounded(api: Api) -> None:
    ears = [Ear(api.app) for _ in range(MAX_LISTENERS)]
    for ear in ears:
        await ear.until(b": homing")
    refused = await api.client.get("/api/v1/events")
    assert (refused.status_code, refused.headers["retry-after"]) == (503, "5")
    ears[0].gone.set()
    await ears[0].task
    again = Ear(api.app)
    await again.until(b": homing")
    api.app.live.end()
    await asyncio.gather(*(ear.task for ear in (*ears, again)))


async def test_a_listener_may_choose_its_route(api: Api) -> None:
    other, mail = Ear(api.app, b"route=events"), Ear(api.app, b"route=mail")
    await other.until(b": homing")
    await mail.until(b": homing")
    await api.dead()
    await mail.until(b'"state":"failed"')
    assert other.events() == []
    api.app.live.end()
    await asyncio.gather(other.task, mail.task)


async def test_a_stopping_server_lets_its_listeners_go(api: Api) -> None:
    ear = Ear(api.app)
    await ear.until(b": homing")
    api.app.live.end()
    await asyncio.wait_for(ear.task, 5)
    assert not ear.sent[-1].get("more_body")
    assert (await api.client.get("/api/v1/events")).status_code == 503


async def test_an_unknown_filter_is_refused(api: Api) -> None:
    answer = await api.client.get("/api/v1/events?colour=red")
    assert (answer.status_code, answer.json()["field"]) == (400, "colour")


async def test_head_does_not_listen(api: Api) -> None:
    ear = Ear(api.app, method="HEAD")
    await asyncio.wait_for(ear.task, 5)
    assert ear.status == 200
    assert api.app.live.listeners == 0
