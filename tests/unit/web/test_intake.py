"""REST intake: accepted durably, repeated harmlessly, refused by name."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from homing.domain.errors import (
    StoreCorrupt,
    StoreError,
    StoreFull,
    StoreLocked,
    StoreOutcomeUnknown,
    StoreUnavailable,
)
from homing.domain.message import Attachment, Email, Invitation, decode_message
from tests.unit.web.conftest import Api


async def test_a_new_one_is_accepted_and_found(api: Api) -> None:
    answer = await api.post("booking-42")
    assert answer.status_code == 202
    body = answer.json()
    assert body == {"delivery_id": body["delivery_id"], "status": "pending", "created": True}
    shown = (await api.client.get(f"/api/v1/deliveries/{body['delivery_id']}")).json()
    assert shown["idempotency_key"] == "booking-42"
    assert shown["recipients"] == [{"address": "ann@example.org"}]


async def test_every_field_arrives(api: Api) -> None:
    fields: dict[str, Any] = {
        "to": ["Ann <ann@example.org>"],
        "cc": ["bob@example.org"],
        "bcc": ["eve@example.org"],
        "reply_to": ["desk@example.org"],
        "subject": "Grüße",
        "text": "Hallo",
        "html": "<p>Hallo</p>",
        "headers": {"X-Campaign": "spring"},
        "metadata": {"booking": "42"},
        "source": "shop",
        "priority": 1,
        "send_at": "2099-01-31T08:00:00Z",
        "expires_at": "2099-01-31T10:00:00.5+01:00",
        "route": "mail",
    }
    delivery_id = (await api.post("k", **fields)).json()["delivery_id"]
    stored = await api.homing.store.get(delivery_id)
    content = await api.homing.store.content(delivery_id)
    assert stored is not None
    assert content is not None
    email = decode_message(content.payload)
    assert isinstance(email, Email)
    assert (email.to, email.cc, email.bcc) == (
        ("Ann <ann@example.org>",),
        ("bob@example.org",),
        ("eve@example.org",),
    )
    assert (email.subject, email.text, email.html) == ("Grüße", "Hallo", "<p>Hallo</p>")
    assert (email.reply_to, email.headers) == (("desk@example.org",), {"X-Campaign": "spring"})
    assert (stored.source, stored.priority, stored.metadata) == ("shop", 1, {"booking": "42"})
    assert (stored.due_at_ms, stored.expires_at_ms) == (4_073_529_600_000, 4_073_533_200_500)


async def test_files_invitations_and_hidden_recipients_arrive(api: Api) -> None:
    ics = "BEGIN:VCALENDAR\nMETHOD:CANCEL\nBEGIN:VEVENT\nUID:1\nEND:VEVENT\nEND:VCALENDAR\n"
    fields: dict[str, Any] = {
        "to": [],
        "bcc": ["a..b.@docomo.ne.jp"],
        "html": '<img src="cid:logo">',
        "attachments": [
            {
                "filename": "logo.png",
                "content_base64": base64.b64encode(b"PNG").decode(),
                "content_type": "image/png",
                "content_id": "logo",
            }
        ],
        "invitation": {"ics": ics, "method": "CANCEL"},
        "headers": {"Message-ID": "<42@example.org>", "Sender": "homing@stub.test"},
    }
    answer = await api.post("k", **fields)
    assert answer.status_code == 202, answer.json()
    content = await api.homing.store.content(answer.json()["delivery_id"])
    assert content is not None
    email = decode_message(content.payload)
    assert isinstance(email, Email)
    assert (email.to, email.bcc) == ((), ('"a..b."@docomo.ne.jp',))
    assert email.attachments == (Attachment("logo.png", b"PNG", "image/png", "logo"),)
    assert email.invitation == Invitation(ics, "CANCEL")
    assert email.headers == fields["headers"]


async def test_a_repeat_gives_the_same_delivery(api: Api) -> None:
    first = (await api.post("k")).json()
    again = await api.post("k")
    assert again.status_code == 200
    assert again.json() == {**first, "created": False}


async def test_a_late_repeat_tells_how_it_stands_now(api: Api) -> None:
    await api.post("k")
    await api.work()
    again = await api.post("k")
    assert (again.status_code, again.json()["status"]) == (200, "delivered")


async def test_another_request_under_the_same_key_is_a_conflict(api: Api) -> None:
    first = (await api.post("k")).json()
    other = await api.post("k", subject="Another")
    assert other.status_code == 409
    assert other.headers["content-type"] == "application/problem+json"
    assert other.json()["delivery_id"] == first["delivery_id"]
    assert other.json()["field"] == "Idempotency-Key"


async def test_the_same_key_of_another_source_is_another_request(api: Api) -> None:
    assert (await api.post("k", source="shop")).status_code == 202
    assert (await api.post("k", source="crm")).status_code == 202


async def test_a_spelling_of_the_same_address_is_no_conflict(api: Api) -> None:
    await api.post("k", to=["ann@EXAMPLE.org"])
    assert (await api.post("k", to=[" ann@example.org "])).status_code == 200


async def test_fifty_at_once_under_one_key_are_one_delivery_i3(api: Api) -> None:
    answers = await asyncio.gather(*(api.post("k") for _ in range(50)))
    assert sorted(answer.status_code for answer in answers) == [200] * 49 + [202]
    assert len({answer.json()["delivery_id"] for answer in answers}) == 1


BAD_FIELDS: list[tuple[dict[str, object], str, int]] = [
    ({"to": []}, "to", 422),
    ({"text": "a\0b"}, "text", 422),
    ({"metadata": {"a": "\0"}}, "metadata", 422),
    ({"headers": {"Sender": "boss@example.org"}}, "headers.Sender", 422),
    ({"invitation": {"ics": "x"}}, "invitation.ics", 422),
    ({"to": ["no address"]}, "to[0]", 422),
    ({"to": ["ann@example.org", "x\r\nBcc: y@z.org"]}, "to[1]", 422),
    ({"to": "ann@example.org"}, "to", 422),
    ({"to": None}, "to", 422),
    ({"to": ["ann@example.org", 7]}, "to[1]", 422),
    ({"to": [f"a{n}@example.org" for n in range(101)]}, "to", 413),
    ({"cc": ["no address"]}, "cc[0]", 422),
    ({"bcc": ["a@b@c"]}, "bcc[0]", 422),
    ({"reply_to": ["no address"]}, "reply_to[0]", 422),
    ({"from": "boss@example.org"}, "from", 422),
    ({"from": ["homing@stub.test"]}, "from", 422),
    ({"sender": "homing@stub.test"}, "sender", 422),
    ({"subject": "a\r\nBcc: evil@example.org"}, "subject", 422),
    ({"subject": 7}, "subject", 422),
    ({"subject": "x" * 999}, "subject", 413),
    ({"subject": None}, "subject", 422),
    ({"text": ""}, "text", 422),
    ({"text": "x" * 1_000_001}, "text", 413),
    ({"text": "ä" * 500_001}, "text", 413),
    ({"html": "x" * 1_000_001}, "html", 413),
    ({"html": 7}, "html", 422),
    ({"template_id": "none.such", "subject": "", "text": ""}, "template_id", 422),
    ({"template_id": "../etc/passwd", "subject": "", "text": ""}, "template_id", 422),
    ({"template_id": "welcome"}, "subject", 422),
    ({"locale": "de"}, "locale", 422),
    ({"variables": {"a": 1}}, "variables", 422),
    ({"variables": []}, "variables", 422),
    ({"attachments": [{"filename": "a", "content_base64": "?"}]}, "attachments", 422),
    ({"attachments": [{"filename": "a\n", "content_base64": "YQ=="}]}, "attachments[0]", 422),
    ({"attachments": [{"content_base64": "YQ=="}]}, "attachments[0].filename", 422),
    (
        {"attachments": [{"filename": "a", "content_base64": "YQ==", "content_type": "text\n"}]},
        "attachments[0]",
        422,
    ),
    ({"attachments": [{"filename": "a", "content_base64": "YQ=="}] * 51}, "attachments", 413),
    ({"headers": {"Bcc": "evil@example.org"}}, "headers.Bcc", 422),
    ({"headers": {"X-A": "b\r\nBcc: evil@example.org"}}, "headers.X-A", 422),
    ({"headers": {"X-A": 7}}, "headers.X-A", 422),
    ({"metadata": {"a": 7}}, "metadata.a", 422),
    ({"metadata": {"a": "x" * 1001}}, "metadata", 413),
    ({"priority": 0}, "priority", 422),
    ({"priority": 5}, "priority", 422),
    ({"priority": 1.5}, "priority", 422),
    ({"priority": "1"}, "priority", 422),
    ({"priority": True}, "priority", 422),
    ({"send_at": 4_073_529_600_000}, "send_at", 422),
    ({"send_at": "1969-12-31T00:00:00Z"}, "send_at", 422),
    ({"send_at": "2099-01-31T08:00:00"}, "send_at", 422),
    ({"expires_at": "2020-01-31T08:00:00Z"}, "expires_at", 422),
    ({"expires_at": "soon"}, "expires_at", 422),
    ({"source": "x" * 201}, "source", 422),
    ({"source": "homing.intent"}, "source", 422),
    ({"source": "a\nb"}, "source", 422),
    ({"route": "nowhere"}, "route", 422),
    ({"route": "event"}, "route", 422),
    ({"route": ""}, "route", 422),
    ({"unknown": 1}, "unknown", 422),
]


@pytest.mark.parametrize(("fields", "field", "status"), BAD_FIELDS)
async def test_bad_input_names_the_field_and_stores_nothing(
    api: Api, fields: dict[str, object], field: str, status: int
) -> None:
    answer = await api.post("k", **fields)
    assert (answer.status_code, answer.json()["field"]) == (status, field) or (
        answer.status_code == status and answer.json()["field"].startswith(field)
    ), answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["detail"]
    assert await api.listed() == []
    # What was refused has not taken the key.
    assert (await api.post("k")).status_code == 202


@pytest.mark.parametrize("fields", [{"text": "x" * 1_000_000}, {"text": "ä" * 500_000}])
async def test_the_largest_that_fits_is_taken(api: Api, fields: dict[str, object]) -> None:
    assert (await api.post("k", **fields)).status_code == 202


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b'{"to": ["a@b.org"], "to": ["c@d.org"], "text": "x"}',
        b'{"to": ["a@b.org"], "text": NaN}',
        b'{"to": ["a@b.org"], "text": "x", "variables": ' + b'{"a":' * 40 + b"1" + b"}" * 40 + b"}",
        b'{"to": ["a@b.org"], "text": "x", "priority": 99999999999999999999}',
        b"\xff\xfe",
    ],
)
async def test_what_is_no_strict_json_is_refused(api: Api, body: bytes) -> None:
    answer = await api.raw(body)
    assert answer.status_code in (400, 422)
    assert answer.headers["content-type"] == "application/problem+json"
    assert await api.listed() == []


GOOD = b'{"to": ["ann@example.org"], "text": "x"}'


@pytest.mark.parametrize(
    ("name", "value", "status"),
    [
        ("Content-Type", "text/plain", 415),
        ("Content-Type", "application/x-www-form-urlencoded", 415),
        ("Content-Type", "multipart/form-data", 415),
        ("Content-Type", "application/json; charset=utf-16", 415),
        ("Content-Type", "", 415),
        ("Content-Encoding", "gzip", 415),
        ("Content-Encoding", "identity", 415),
        ("Idempotency-Key", "", 400),
        ("Idempotency-Key", " ", 400),
        ("Idempotency-Key", "x" * 513, 400),
        ("Idempotency-Key", "a\tb", 400),
    ],
)
async def test_a_bad_header_is_refused_by_name(
    api: Api, name: str, value: str, status: int
) -> None:
    answer = await api.raw(GOOD, **{name.replace("-", "_"): value})
    assert (answer.status_code, answer.json()["field"]) == (status, name)
    assert await api.listed() == []


async def test_the_key_is_required(api: Api) -> None:
    answer = await api.client.post("/api/v1/deliveries", json={"to": ["a@b.org"], "text": "x"})
    assert (answer.status_code, answer.json()["field"]) == (400, "Idempotency-Key")


async def test_a_key_that_is_no_utf_8_is_refused(api: Api) -> None:
    answer = await api.client.post(
        "/api/v1/deliveries",
        json={"to": ["a@b.org"], "text": "x"},
        headers={b"Idempotency-Key": b"\xff\xfe"},
    )
    assert (answer.status_code, answer.json()["field"]) == (400, "Idempotency-Key")


@pytest.mark.parametrize("name", ["Idempotency-Key", "Content-Type", "Content-Length", "Host"])
async def test_a_header_given_twice_is_refused(api: Api, name: str) -> None:
    values = {"Content-Type": "application/json", "Content-Length": "40", "Host": "127.0.0.1"}
    pair = (name, values.get(name, "k"))
    answer = await api.client.post("/api/v1/deliveries", content=GOOD, headers=[pair, pair])
    assert (answer.status_code, answer.json()["field"]) == (400, name.lower())


@pytest.mark.parametrize(
    "kind", ["application/json", "Application/JSON", "application/json; charset=UTF-8"]
)
async def test_json_by_any_of_its_names_is_taken(api: Api, kind: str) -> None:
    assert (await api.raw(GOOD, Content_Type=kind)).status_code == 202


async def test_an_attachment_goes_with_the_mail(api: Api) -> None:
    content = base64.b64encode(b"%PDF-1.7 invoice").decode()
    attachment = {"filename": "Rechnung Mä.pdf", "content_base64": content}
    answer = await api.post("k", attachments=[{**attachment, "content_type": "application/pdf"}])
    assert answer.status_code == 202
    await api.work()
    stored = await api.homing.store.content(answer.json()["delivery_id"])
    assert stored is not None
    assert content.encode() in stored.results["frozen"].replace(b"\r\n", b"")


class TestBatch:
    URL = "/api/v1/deliveries/batch"

    @staticmethod
    def items(*keys: str) -> list[dict[str, Any]]:
        return [{"idempotency_key": key, "to": ["ann@example.org"], "text": key} for key in keys]

    async def test_each_is_answered_in_its_place(self, api: Api) -> None:
        first = (await api.post("b")).json()
        same = (await api.client.post(self.URL, json={"items": self.items("d")})).json()
        answer = await api.client.post(self.URL, json={"items": self.items("a", "b", "c", "d")})
        assert answer.status_code == 202
        a, b, c, d = answer.json()["items"]
        assert [item["idempotency_key"] for item in (a, b, c, d)] == ["a", "b", "c", "d"]
        assert (a["created"], a["status"], a["conflict"]) == (True, "pending", False)
        assert (b["created"], b["status"], b["conflict"]) == (False, None, True)
        assert b["delivery_id"] == first["delivery_id"]
        assert c["created"] is True
        assert (d["created"], d["delivery_id"]) == (False, same["items"][0]["delivery_id"])

    async def test_a_repeat_of_all_makes_nothing_new(self, api: Api) -> None:
        first = await api.client.post(self.URL, json={"items": self.items("a", "b")})
        again = await api.client.post(self.URL, json={"items": self.items("a", "b")})
        assert (first.status_code, again.status_code) == (202, 200)
        assert len(await api.listed()) == 2

    async def test_the_same_key_twice_in_one_batch_is_one_delivery(self, api: Api) -> None:
        answer = await api.client.post(self.URL, json={"items": self.items("a", "a")})
        first, second = answer.json()["items"]
        assert (first["created"], second["created"]) == (True, False)
        assert first["delivery_id"] == second["delivery_id"]

    @pytest.mark.parametrize(
        ("wrong", "field", "status"),
        [
            ({"to": ["ann@example.org", "not an address"]}, "items[3].to[1]", 422),
            ({"to": []}, "items[3].to", 422),
            ({"to": 7}, "items[3].to", 422),
            ({"subject": "a\nb"}, "items[3].subject", 422),
            ({"text": "x" * 1_000_001}, "items[3].text", 413),
            ({"expires_at": "2020-01-31T08:00:00Z"}, "items[3].expires_at", 422),
            ({"route": "nowhere"}, "items[3].route", 422),
            ({"source": "homing.x"}, "items[3].source", 422),
            ({"source": "\x00"}, "items[3].source", 422),
            ({"idempotency_key": ""}, "items[3].idempotency_key", 422),
            ({"idempotency_key": " a"}, "items[3].idempotency_key", 422),
            ({"idempotency_key": "a\x00"}, "items[3].idempotency_key", 422),
            ({"idempotency_key": "x" * 513}, "items[3].idempotency_key", 422),
            ({"headers": {"Bcc": "a@b.org"}}, "items[3].headers.Bcc", 422),
            ({"unknown": 1}, "items[3].unknown", 422),
        ],
    )
    async def test_a_bad_item_is_named_and_nothing_is_stored(
        self, api: Api, wrong: dict[str, Any], field: str, status: int
    ) -> None:
        items = self.items("a", "b", "c", "d", "e")
        items[3] |= wrong
        answer = await api.client.post(self.URL, json={"items": items})
        assert (answer.status_code, answer.json()["field"]) == (status, field)
        assert await api.listed() == []

    @pytest.mark.parametrize(
        ("body", "field", "status"),
        [
            ({"items": []}, "items", 422),
            ({}, "items", 422),
            ({"items": {}}, "items", 422),
            ({"items": [7]}, "items[0]", 422),
            ({"more": 1, "items": []}, "more", 422),
            (
                {"items": [{"idempotency_key": "k", "to": ["a@b.org"], "text": "x"}] * 1001},
                "items",
                422,
            ),
        ],
    )
    async def test_a_bad_batch_is_refused(
        self, api: Api, body: dict[str, Any], field: str, status: int
    ) -> None:
        answer = await api.client.post(self.URL, json=body)
        assert (answer.status_code, answer.json()["field"]) == (status, field)

    async def test_a_thousand_fit(self, api: Api) -> None:
        items = self.items(*(f"k{number}" for number in range(1000)))
        answer = await api.client.post(self.URL, json={"items": items})
        assert answer.status_code == 202
        assert sum(item["created"] for item in answer.json()["items"]) == 1000


class TestStoreInTrouble:
    """A store that is full or gone: 507 or 503, nothing stored, and it recovers."""

    @pytest.mark.parametrize(
        ("error", "status", "says"),
        [
            (StoreFull("no room"), 507, "nothing was stored"),
            (StoreUnavailable("locked"), 503, "nothing was stored"),
            (StoreLocked("busy"), 503, "another connection keeps it locked; nothing was stored"),
            (StoreCorrupt("odd"), 503, "it is damaged; nothing was stored"),
            (StoreOutcomeUnknown("cut"), 503, "send the request again under the same key"),
            (StoreError("odd"), 503, "nothing was stored"),
        ],
    )
    async def test_it_is_said_and_passes(
        self,
        api: Api,
        monkeypatch: pytest.MonkeyPatch,
        error: StoreError,
        status: int,
        says: str,
    ) -> None:
        with monkeypatch.context() as trouble:
            trouble.setattr(api.homing.store, "add", _raising(error))
            answer = await api.post("k")
            assert (answer.status_code, answer.headers["retry-after"]) == (status, "5")
            assert says in answer.json()["detail"]
            assert str(error) not in answer.text
            assert (await api.client.get("/readyz")).status_code == 503
        assert await api.listed() == []
        assert (await api.post("k")).status_code == 202
        assert (await api.client.get("/readyz")).status_code == 200

    async def test_a_store_that_cannot_be_read_is_503(
        self, api: Api, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for name in ("get", "page", "count", "facts"):
            monkeypatch.setattr(api.homing.store, name, _raising(StoreUnavailable("gone")))
        for path in ("/api/v1/deliveries", "/api/v1/deliveries/x", "/api/v1/stats", "/"):
            answer = await api.client.get(path)
            assert (answer.status_code, answer.headers["retry-after"]) == (503, "5")
        ready = await api.client.get("/readyz")
        assert ready.json()["problems"] == ["the store refuses to answer"]

    async def test_readiness_names_a_failing_provider_and_repeats_nothing_of_it(
        self, api: Api, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        said = {"mail": "auth_failed: 535 5.7.8 mx7.internal.example.org says no"}
        monkeypatch.setattr(type(api.homing.engine), "provider_problems", said)
        ready = await api.client.get("/readyz")
        assert ready.json() == {
            "status": "degraded",
            "problems": ["the provider of route mail fails"],
        }

    async def test_a_surprise_is_500_and_tells_nothing(
        self, api: Api, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        surprise = RuntimeError("ann@example.org at /var/lib/secret")
        monkeypatch.setattr(api.homing.store, "add", _raising(surprise))
        answer = await api.post("k")
        assert answer.status_code == 500
        assert answer.headers["content-type"] == "application/problem+json"
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert "ann" not in answer.text
        assert "/var" not in answer.text


def _raising(error: Exception) -> Callable[..., Awaitable[Any]]:
    async def call(*given: Any, **named: Any) -> Any:
        raise error

    return call
