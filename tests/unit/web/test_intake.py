"""REST intake: accepted durably, repeated harmlessly, refused by name."""

from __future__ import annotations

import base64

import pytest

from tests.unit.web.conftest import Api


async def test_a_new_one_is_accepted_and_found(api: Api) -> None:
    answer = await api.post("booking-42")
    assert answer.status_code == 202
    body = answer.json()
    assert body["created"] is True
    assert body["status"] == "pending"
    shown = (await api.client.get(f"/api/v1/deliveries/{body['delivery_id']}")).json()
    assert shown["idempotency_key"] == "booking-42"
    assert shown["recipients"] == [{"address": "ann@example.org"}] or (
        shown["recipients"][0]["outcome"] == "open"
    )


async def test_a_repeat_gives_the_same_delivery(api: Api) -> None:
    first = (await api.post("k")).json()
    again = await api.post("k")
    assert again.status_code == 200
    assert again.json() == {**first, "created": False}


async def test_another_request_under_the_same_key_is_a_conflict(api: Api) -> None:
    first = (await api.post("k")).json()
    other = await api.post("k", subject="Another")
    assert other.status_code == 409
    assert other.headers["content-type"] == "application/problem+json"
    assert other.json()["delivery_id"] == first["delivery_id"]


async def test_a_spelling_of_the_same_address_is_no_conflict(api: Api) -> None:
    await api.post("k", to=["ann@EXAMPLE.org"])
    assert (await api.post("k", to=[" ann@example.org "])).status_code == 200


@pytest.mark.parametrize(
    ("fields", "field", "status"),
    [
        ({"to": []}, "to", 422),
        ({"to": ["no address"]}, "to[0]", 422),
        ({"to": ["ann@example.org", "x\r\nBcc: y@z.org"]}, "to[1]", 422),
        ({"to": "ann@example.org"}, "to", 422),
        ({"subject": "a\r\nBcc: evil@example.org"}, "subject", 422),
        ({"subject": 7}, "subject", 422),
        ({"text": ""}, "text", 422),
        ({"text": "x" * 1_100_000}, "text", 413),
        ({"to": [f"a{n}@example.org" for n in range(101)]}, "to", 413),
        ({"from": "boss@example.org"}, "from", 422),
        ({"headers": {"Bcc": "evil@example.org"}}, "headers.Bcc", 422),
        ({"priority": 9}, "priority", 422),
        ({"expires_at_ms": 1}, "expires_at_ms", 422),
        ({"template_id": "none.such", "subject": "", "text": ""}, "template_id", 422),
        ({"attachments": [{"filename": "a", "content_base64": "?"}]}, "attachments", 422),
        ({"unknown": 1}, "unknown", 422),
        ({"route": "nowhere"}, "route", 422),
    ],
)
async def test_bad_input_names_the_field_and_stores_nothing(
    api: Api, fields: dict[str, object], field: str, status: int
) -> None:
    answer = await api.post("k", **fields)
    assert answer.status_code == status, answer.text
    assert answer.json()["field"].startswith(field)
    listed = (await api.client.get("/api/v1/deliveries")).json()
    assert listed == {"items": [], "next_cursor": None}


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b'{"to": ["a@b.org"], "to": ["c@d.org"], "text": "x"}',
        b'{"to": ["a@b.org"], "text": NaN}',
        b'{"to": ["a@b.org"], "text": "x", "variables": ' + b'{"a":' * 40 + b"1" + b"}" * 40 + b"}",
        b'{"to": ["a@b.org"], "text": "x", "not_before_ms": 99999999999999999999}',
        b"\xff\xfe",
    ],
)
async def test_what_is_no_strict_json_is_refused(api: Api, body: bytes) -> None:
    answer = await api.client.post(
        "/api/v1/deliveries",
        content=body,
        headers={"Idempotency-Key": "k", "Content-Type": "application/json"},
    )
    assert answer.status_code in (400, 422)
    assert answer.headers["content-type"] == "application/problem+json"


async def test_the_key_and_the_content_type_are_required(api: Api) -> None:
    no_key = await api.client.post("/api/v1/deliveries", json={"to": ["a@b.org"], "text": "x"})
    assert (no_key.status_code, no_key.json()["field"]) == (400, "Idempotency-Key")
    no_type = await api.client.post(
        "/api/v1/deliveries", content=b"{}", headers={"Idempotency-Key": "k"}
    )
    assert no_type.status_code == 415


async def test_an_attachment_goes_with_the_mail(api: Api) -> None:
    content = base64.b64encode(b"%PDF-1.7 invoice").decode()
    attachment = {"filename": "Rechnung Mä.pdf", "content_base64": content}
    answer = await api.post("k", attachments=[{**attachment, "content_type": "application/pdf"}])
    assert answer.status_code == 202
    await api.work()
    stored = await api.homing.store.content(answer.json()["delivery_id"])
    assert stored is not None
    assert content.encode() in stored.results["frozen"].replace(b"\r\n", b"")


async def test_a_batch_answers_each_in_its_place(api: Api) -> None:
    await api.post("b")
    items = [
        {"idempotency_key": "a", "to": ["ann@example.org"], "text": "1"},
        {"idempotency_key": "b", "to": ["ann@example.org"], "text": "another"},
        {"idempotency_key": "c", "to": ["bob@example.org"], "text": "3", "priority": 1},
    ]
    answer = await api.client.post("/api/v1/deliveries/batch", json={"items": items})
    assert answer.status_code == 202
    got = [
        (item["idempotency_key"], item.get("conflict", False)) for item in answer.json()["items"]
    ]
    assert got == [("a", False), ("b", True), ("c", False)]


async def test_a_bad_item_refuses_the_whole_batch_and_stores_nothing(api: Api) -> None:
    items = [
        {"idempotency_key": "a", "to": ["ann@example.org"], "text": "1"},
        {"idempotency_key": "b", "to": ["not an address"], "text": "2"},
    ]
    answer = await api.client.post("/api/v1/deliveries/batch", json={"items": items})
    assert answer.status_code == 422
    assert (await api.client.get("/api/v1/deliveries")).json()["items"] == []
