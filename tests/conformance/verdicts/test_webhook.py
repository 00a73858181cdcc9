"""Stripe's events: which are believed, what they lead to, and what Stripe is asked to repeat."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from homing.domain.errors import StoreLocked
from homing.ports import Query
from homing.testing.clocks import ManualClock
from homing_systems.verdicts import stripe
from homing_systems.verdicts.web import WEBHOOK
from tests.conformance.verdicts.office import (
    ODD_JSON,
    PAID,
    SECRET,
    Office,
    completed,
    verdict_server,
)
from tests.conformance.verdicts.test_service import records, text_of

VERDICTS = {"cs_1": ODD_JSON.encode()}


@asynccontextmanager
async def webhook(folder: Path, clock: ManualClock, *script: str) -> AsyncIterator[Office]:
    """The service with its mounted webhook, and a place that has the verdict of cs_1."""
    async with (
        verdict_server(VERDICTS) as url,
        Office(folder, clock, *script, verdict_url=url).open() as office,
    ):
        yield office


async def test_a_paid_checkout_becomes_a_mail(tmp_path: Path, clock: ManualClock) -> None:
    """O-011, O-010, O-096: tier and query are those of the session, the verdict as it came."""
    async with webhook(tmp_path, clock) as office:
        answer = await office.tell(completed())

    assert (answer.status_code, answer.json()) == (200, {"outcome": "sent"})
    [mail] = office.graph.accepted
    assert mail.recipients == ("ann@example.org",)
    assert text_of(mail) == ODD_JSON
    assert office.deliveries()[0].endswith("to=ann@example.org tier=full attempt=0")


@pytest.mark.parametrize(
    "words",
    [
        {"header": ""},
        {"header": "nonsense"},
        {"header": "t=1,v1=00"},
        {"header": "v1=00"},
        {"secret": "another"},
        {"age_s": 310},
        {"age_s": -310},
    ],
)
async def test_what_is_not_signed_is_refused(
    tmp_path: Path, clock: ManualClock, words: dict[str, Any]
) -> None:
    """O-052, O-051"""
    async with webhook(tmp_path, clock) as office:
        answer = await office.tell(completed(), **words)
        assert await records(office) == 0

    assert answer.status_code == 400
    assert office.graph.calls == []


async def test_without_a_secret_every_event_is_refused(tmp_path: Path, clock: ManualClock) -> None:
    """O-052"""
    async with Office(tmp_path, clock, stripe_secret=None).open() as office:
        answers = [await office.tell(completed(), secret=secret) for secret in (SECRET, "")]

    assert [answer.status_code for answer in answers] == [400, 400]


def test_a_signature_is_good_for_five_minutes_and_one_of_several_is_enough() -> None:
    at_s, event = 1_700_000_000, b'{"type": "x"}'
    good = stripe.signature(event, SECRET, at_s)
    header = f"t={at_s},v1=00,v1={good},v0=11"

    assert stripe.is_signed(event, header, SECRET, at_s + 300)
    assert stripe.is_signed(event, header, SECRET, at_s - 300)
    assert not stripe.is_signed(event, header, SECRET, at_s + 301)
    assert not stripe.is_signed(event, f"{header},t={at_s}", SECRET, at_s)
    assert not stripe.is_signed(event, header.replace("v1=", "v2="), SECRET, at_s)


@pytest.mark.parametrize(
    "event",
    [
        json.dumps({"type": "invoice.paid", "data": {"object": {"id": "in_1"}}}).encode(),
        completed(payment_status="unpaid"),
        completed(payment_status="no_payment_required"),
        completed(payment_status=None),
    ],
)
async def test_other_events_and_what_is_not_paid_are_left_alone(
    tmp_path: Path, clock: ManualClock, event: bytes
) -> None:
    """O-051, O-052"""
    async with webhook(tmp_path, clock) as office:
        answer = await office.tell(event)
        assert await records(office) == 0

    assert (answer.status_code, answer.json()) == (200, {"outcome": "ignored"})
    assert office.alerts() == []


async def test_an_event_that_cannot_be_read_is_refused(tmp_path: Path, clock: ManualClock) -> None:
    async with webhook(tmp_path, clock) as office:
        answers = [await office.tell(event) for event in (b"[]", b'{"type": "' + b"x", b"{}")]

    assert {answer.status_code for answer in answers} == {400}


@pytest.mark.parametrize("details", [None, {}, {"email": None}, {"email": ""}])
async def test_a_session_without_an_address_is_cache_only(
    tmp_path: Path, clock: ManualClock, details: object, caplog: pytest.LogCaptureFixture
) -> None:
    """O-115, O-116, O-134"""
    async with webhook(tmp_path, clock) as office:
        with caplog.at_level(logging.WARNING):
            answer = await office.tell(completed(customer_details=details))
        assert await records(office) == 0

    assert (answer.status_code, answer.json()) == (200, {"outcome": "cache_only"})
    assert "no_address" in caplog.text


async def test_an_event_that_is_told_ten_times_at_once_is_one_mail(
    tmp_path: Path, clock: ManualClock
) -> None:
    """O-061, O-113"""
    async with webhook(tmp_path, clock) as office:
        answers = await asyncio.gather(*(office.tell(completed()) for _ in range(10)))
        later = await office.tell(completed())
        assert await records(office) == 1

    assert {answer.status_code for answer in answers} == {200}
    assert later.json() == {"outcome": "sent"}
    assert len(office.graph.accepted) == len(office.deliveries()) == 1


async def test_a_repeated_event_needs_no_verdict(tmp_path: Path, clock: ManualClock) -> None:
    """O-061: nor does it alert while the verdict cannot be had."""
    async with webhook(tmp_path, clock) as office:
        first = await office.tell(completed())
    async with Office(tmp_path, clock, verdict_url="http://127.0.0.1:9/verdicts").open() as office:
        again = await office.tell(completed())

    assert (again.status_code, again.json()) == (first.status_code, first.json())
    assert office.alerts() == []


async def test_a_failing_provider_is_no_matter_for_stripe(
    tmp_path: Path, clock: ManualClock
) -> None:
    """O-001, O-061"""
    async with webhook(tmp_path, clock, "503", "503") as office:
        queued = await office.tell(completed())
        again = await office.tell(completed())
        assert await records(office) == 1

    assert queued.status_code == again.status_code == 200
    assert queued.json() == again.json()
    assert queued.json()["outcome"] == "queued"


@pytest.mark.parametrize(
    ("answers", "problem"),
    [
        ({}, "answers 404"),
        ({"cs_1": b"[]"}, "must be a JSON object"),
        ({"cs_1": b"<html>"}, "must be a JSON object"),
    ],
)
async def test_a_verdict_that_is_not_there_is_alerted_and_asked_for_again(
    tmp_path: Path, clock: ManualClock, answers: dict[str, bytes], problem: str
) -> None:
    """O-003, O-130"""
    (tmp_path / "ALERT.log").write_text("an older line\n")
    async with (
        verdict_server(answers) as url,
        Office(tmp_path, clock, verdict_url=url).open() as office,
    ):
        answer = await office.tell(completed())
        assert await records(office) == 0

    assert answer.status_code == 503
    older, alert = office.alerts()
    assert older == "an older line"
    assert alert.startswith("[ALERT][oracle-email-retry] NO VERDICT: session_id=cs_1 ")
    assert problem in alert


@pytest.mark.parametrize("url", [None, "http://127.0.0.1:9/verdicts"])
async def test_a_verdict_service_that_is_down_is_asked_again_later(
    tmp_path: Path, clock: ManualClock, url: str | None
) -> None:
    """O-003"""
    async with Office(tmp_path, clock, verdict_url=url).open() as office:
        answer = await office.tell(completed())

    assert answer.status_code == 503
    assert "NO VERDICT: session_id=cs_1" in office.alerts()[0]


async def test_a_session_that_may_never_be_sent_is_alerted(
    tmp_path: Path, clock: ManualClock
) -> None:
    """O-012, O-003"""
    async with webhook(tmp_path, clock) as office:
        answer = await office.tell(completed(metadata={"tier": "gold"}))

    assert answer.status_code == 422
    assert "REFUSED: session_id=cs_1 tier:" in office.alerts()[0]


async def test_a_lock_that_is_not_had_makes_stripe_repeat(
    tmp_path: Path, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """O-104, O-101"""
    async with webhook(tmp_path, clock) as office:

        async def locked(*given: object) -> None:
            raise StoreLocked("the lock was not had within 5 s")

        with monkeypatch.context() as patch:
            patch.setattr(office.homing.store, "commit", locked)
            refused = await office.tell(completed())
        repeated = await office.tell(completed())

    assert refused.status_code == 503
    assert "LOCK TIMEOUT: session_id=cs_1" in office.alerts()[0]
    assert repeated.json() == {"outcome": "sent"}


class Capture:
    """Stands for the mail service: keeps what it was sent and answers as told."""

    def __init__(self, status: int, answer: object) -> None:
        self.status, self.answer = status, answer
        self.heads: list[bytes] = []
        self.bodies: list[bytes] = []

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[str]:
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        async with server:
            yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0])
        self.heads.append(head)
        self.bodies.append(await reader.readexactly(length))
        data = json.dumps(self.answer).encode()
        size = f"HTTP/1.1 {self.status} X\r\nConnection: close\r\nContent-Length: {len(data)}"
        writer.write(f"{size}\r\n\r\n".encode() + data)
        await writer.drain()
        writer.close()


async def told(
    folder: Path, clock: ManualClock, service_url: str
) -> tuple[httpx2.Response, list[str]]:
    """What the webhook program answers to a paid checkout, and the states of its records."""
    async with verdict_server(VERDICTS) as url:
        words: Any = {"verdict_url": url, "service_url": service_url, "service_token": "hm_token"}
        async with Office(folder, clock, web=WEBHOOK, **words).open() as office:
            answer = await office.tell(completed())
            page = await office.homing.store.page(Query(route="verdicts"))
    assert office.graph.calls == []
    assert office.alerts() == []
    return answer, [delivery.state for delivery in page.items]


async def test_the_webhook_program_posts_to_the_service(
    tmp_path: Path, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """O-020, O-019, O-096: with the session, its payment and the verdict as it came."""
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")  # for what is not on this machine
    service = Capture(200, {"outcome": "sent"})
    async with service.serving() as url:
        answer, states = await told(tmp_path, clock, url)

    assert (answer.status_code, answer.json()) == (200, {"outcome": "sent"})
    [body] = service.bodies
    fields = json.loads(body)
    assert {name: fields[name] for name in PAID} == PAID
    assert fields.keys() == {*PAID, "verdict"}
    assert ODD_JSON.encode() in body
    assert service.heads[0].startswith(b"POST /send-verdict-email HTTP/1.1\r\n")
    assert b"bearer hm_token" in service.heads[0].lower()
    assert states == []


@pytest.mark.parametrize("status", [500, 502, 503, 401, 422])
async def test_a_service_that_fails_leaves_a_record_all_the_same(
    tmp_path: Path, clock: ManualClock, status: int
) -> None:
    """O-006, O-007"""
    async with Capture(status, {}).serving() as url:
        answer, states = await told(tmp_path, clock, url)

    assert answer.status_code == 200
    assert answer.json()["outcome"] == "queued"
    assert states == ["pending"]


async def test_a_service_that_is_down_leaves_a_record_for_the_worker(
    tmp_path: Path, clock: ManualClock
) -> None:
    """O-006, O-016, O-097: the worker then sends it."""
    answer, _ = await told(tmp_path, clock, "http://127.0.0.1:9")
    async with Office(tmp_path, clock).open() as service:
        again = await service.post()
        await service.work()

    assert again.json() == answer.json()
    assert service.deliveries()[0].endswith("attempt=1")
