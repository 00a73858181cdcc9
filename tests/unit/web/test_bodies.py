"""Bodies: a bounded number of bytes, in a bounded time, within one bound for them all."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from typing import Any

import pytest
from starlette.requests import ClientDisconnect
from starlette.types import Message

from homing.settings import Settings
from homing.settings.tree import LimitSettings
from homing.web.api.intake import MAX_VALUES, check_form
from homing.web.api.schemas import VERB_BODIES, BatchIn, DeliveryIn
from homing.web.http.bodies import SHORT_BYTES, Bodies
from homing.web.http.calls import Call
from homing.web.http.problems import BadRequest
from tests.unit.web.conftest import OPEN, Api, running

LIMIT = 200_000


class Sender:
    """A client that sends these chunks; between them it may wait for ever."""

    def __init__(self, chunks: Iterable[bytes | None], *, declared: int | None = None) -> None:
        self._chunks = list(chunks)
        self.sent = 0
        headers = [(b"content-type", b"application/json")]
        if declared is not None:
            headers.append((b"content-length", b"%d" % declared))
        self.call = Call({"type": "http", "headers": headers}, self.receive)

    async def receive(self) -> Message:
        if not self._chunks:
            return {"type": "http.disconnect"}
        chunk = self._chunks.pop(0)
        if chunk is None:
            await asyncio.Event().wait()
        body = chunk or b""
        self.sent += len(body)
        return {"type": "http.request", "body": body, "more_body": bool(self._chunks)}


def end(call: Call) -> None:
    """As the application does when the endpoint is done."""
    if call.at_end is not None:
        call.at_end()


async def test_a_body_in_pieces_is_put_together() -> None:
    bodies = Bodies()
    chunks = [b"a" * 10, b"", b"b" * 90_000, b"c"]
    call = Sender(chunks).call
    body = await bodies.read(call, LIMIT)
    assert body == b"".join(chunks)
    assert bodies.held_bytes == len(body)
    end(call)
    assert bodies.held_bytes == 0


@pytest.mark.parametrize("size", [0, 1, SHORT_BYTES, SHORT_BYTES + 1, LIMIT])
@pytest.mark.parametrize("pieces", [1, 3])
async def test_what_is_held_is_given_back(size: int, pieces: int) -> None:
    bodies = Bodies()
    chunks = [b"x" * size, *[b""] * (pieces - 1)]
    call = Sender(chunks).call
    body = await bodies.read(call, LIMIT)
    end(call)
    assert (len(body), bodies.held_bytes) == (size, 0)


@pytest.mark.parametrize("chunks", [[b"x" * (LIMIT + 1)], [b"x" * LIMIT, b"x"]])
async def test_one_byte_too_many_is_too_many(chunks: list[bytes]) -> None:
    bodies = Bodies()
    with pytest.raises(BadRequest, match="larger than 200,000 bytes") as refused:
        await bodies.read(Sender(chunks).call, LIMIT)
    assert (refused.value.status, refused.value.field) == (413, "body")
    assert bodies.held_bytes == 0


async def test_far_too_many_are_not_even_asked_for() -> None:
    sender = Sender([b"x" * 10], declared=10**12)
    with pytest.raises(BadRequest, match="larger"):
        await Bodies().read(sender.call, LIMIT)
    assert sender.sent == 0


async def test_an_endless_body_is_left_after_twice_the_limit() -> None:
    sender = Sender([b"x" * 50_000] * 1000)
    with pytest.raises(BadRequest, match="larger"):
        await Bodies().read(sender.call, LIMIT)
    assert sender.sent <= 2 * LIMIT + 100_000


@pytest.mark.parametrize("chunks", [[None], [b"{", None], [b"x" * 100_000, None]])
async def test_who_stops_sending_is_not_waited_for(chunks: list[bytes | None]) -> None:
    bodies = Bodies(patience_s=0.0)
    with pytest.raises(BadRequest) as refused:
        await bodies.read(Sender([*chunks, b"}"]).call, LIMIT)
    assert (refused.value.status, refused.value.field) == (408, "body")
    assert bodies.held_bytes == 0


async def test_a_drop_now_and_then_does_not_keep_the_line() -> None:
    """The time is for the whole body, not for each of its bytes."""
    now_s = 0.0

    async def drops() -> AsyncIterator[None]:
        nonlocal now_s
        now_s += 5.0
        yield

    class Slow(Sender):
        async def receive(self) -> Message:
            async for _ in drops():
                await asyncio.sleep(0)
            return await super().receive()

    bodies = Bodies(clock=lambda: now_s)
    with pytest.raises(BadRequest, match="too slowly"):
        await bodies.read(Slow([b" "] * 1000).call, LIMIT)
    assert now_s < 60


async def test_who_leaves_leaves_nothing() -> None:
    bodies = Bodies()
    sender = Sender([b"x" * 100_000, b"x"])
    sender._chunks[1:] = []
    original = sender.receive

    async def receive() -> Message:
        message = await original()
        return {**message, "more_body": True} if message["type"] == "http.request" else message

    sender.call.receive = receive
    with pytest.raises(ClientDisconnect):
        await bodies.read(sender.call, LIMIT)
    assert bodies.held_bytes == 0


async def test_all_bodies_together_are_bounded() -> None:
    bodies = Bodies(room_bytes=300_000)
    calls = [Sender([b"x" * 140_000, b""]).call for _ in range(2)]
    for call in calls:
        await bodies.read(call, LIMIT)
    with pytest.raises(BadRequest, match="too many large bodies") as refused:
        await bodies.read(Sender([b"x" * 140_000, b""]).call, LIMIT)
    assert refused.value.status == 503
    end(calls[0])
    assert len(await bodies.read(Sender([b"x" * 140_000, b""]).call, LIMIT)) == 140_000


async def test_a_large_body_takes_room_until_it_is_stored(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bodies = Bodies(room_bytes=300_000)
    monkeypatch.setattr("homing.web.application.Bodies", lambda: bodies)
    async with running(OPEN) as api:
        held: list[int] = []
        add = api.homing.store.add

        async def watch(*given: Any) -> Any:
            held.append(bodies.held_bytes)
            return await add(*given)

        monkeypatch.setattr(api.homing.store, "add", watch)
        assert (await api.post("k", text="x" * 100_000)).status_code == 202
        assert held[0] > 100_000
        assert (await api.post("l", text="x" * 100_000, to=[])).status_code == 422
        assert bodies.held_bytes == 0


@pytest.fixture
async def small() -> AsyncIterator[Api]:
    limits = LimitSettings(body_bytes=200_000, attachments_bytes=3_000_000)
    async with running(Settings(store="memory:", limits=limits)) as api:
        yield api


class TestForm:
    """Only attachments may be large: many small things would grow in memory when decoded."""

    async def test_a_large_attachment_is_taken(self, small: Api) -> None:
        content = "QUJD" * 900_000
        attachment = {"filename": "a.bin", "content_base64": content}
        assert (await small.post("k", attachments=[attachment])).status_code == 202

    async def test_a_large_batch_is_taken(self, small: Api) -> None:
        items = [
            {"idempotency_key": f"k{n}", "to": ["ann@example.org"], "text": "x" * 150_000}
            for n in range(20)
        ]
        answer = await small.client.post("/api/v1/deliveries/batch", json={"items": items})
        assert answer.status_code == 202

    async def test_a_correction_may_have_a_large_attachment(self, small: Api) -> None:
        delivery_id = await small.dead()
        attachment = {"filename": "a.bin", "content_base64": "QUJD" * 500_000}
        email = {"to": ["ok@stub.test"], "text": "x", "attachments": [attachment]}
        url = f"/api/v1/deliveries/{delivery_id}/amend"
        who = {"actor": "ann", "reason": "wrong file"}
        answer = await small.client.post(url, json={**who, "email": email})
        assert answer.status_code == 200
        many = {**email, "attachments": [], "variables": {"many": [{}] * 300_000}}
        answer = await small.client.post(url, json={**who, "email": many})
        assert (answer.status_code, answer.json()["field"]) == (413, "body")

    async def test_a_large_anything_else_is_not(self, small: Api) -> None:
        answer = await small.post("k", variables={"many": [{}] * 300_000})
        assert (answer.status_code, answer.json()["field"]) == (413, "body")
        answer = await small.post("k", to=["a"] * 200_000)
        assert (answer.status_code, answer.json()["field"]) == (413, "body")

    async def test_many_tiny_attachments_are_not(self, small: Api) -> None:
        attachment = {"filename": "", "content_base64": ""}
        answer = await small.post("k", attachments=[attachment] * 20_000)
        assert (answer.status_code, answer.json()["field"]) == (413, "attachments")
        answer = await small.post("k", attachments=[attachment] * 50_000)
        assert (answer.status_code, answer.json()["field"]) == (413, "body")

    @pytest.mark.parametrize("kind", [DeliveryIn, VERB_BODIES["amend"], BatchIn])
    @pytest.mark.parametrize("value", [b"{}", b"[]", b"1", b'""', b'"\\\\"', b'{"a":1}'])
    def test_many_values_are_refused_before_they_are_made(self, kind: Any, value: bytes) -> None:
        """Nothing here has the form of its type, which only the parser would see."""
        body = b"[" + (value + b",") * MAX_VALUES + b"1]"
        with pytest.raises(BadRequest, match="holds more than 100,000 values"):
            check_form(body, kind, message_bytes=2_000_000)

    @pytest.mark.parametrize("text", [b"a,", b"{[", b'\\"],', b"\\\\", b'\\\\\\",'])
    def test_signs_in_a_text_are_no_values(self, text: bytes) -> None:
        body = b'{"items":[{"text":"' + text * 400_000 + b'"}]}'
        check_form(body, BatchIn, message_bytes=2_000_000)

    async def test_a_batch_of_many_values_is_not_taken(self, small: Api) -> None:
        item = {"idempotency_key": "k", "to": ["ann@example.org"], "text": "x"}
        items = {"items": [{**item, "variables": {"many": [{}] * 400_000}}]}
        answer = await small.client.post("/api/v1/deliveries/batch", json=items)
        assert (answer.status_code, answer.json()["field"]) == (413, "body")

    async def test_an_attachment_beyond_the_limit_is_named(self, small: Api) -> None:
        content = "QUJD" * 1_000_001
        attachment = {"filename": "a.bin", "content_base64": content}
        answer = await small.post("k", attachments=[attachment])
        assert answer.status_code == 413
        assert answer.json()["field"].startswith("attachments")
