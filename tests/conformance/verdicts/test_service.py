"""`POST /send-verdict-email`: what is answered, and what is recorded."""

from __future__ import annotations

import asyncio
import json
import logging
import re
import shutil
from email import message_from_bytes, policy
from pathlib import Path
from typing import Any

import pytest

from homing.domain.errors import StoreLocked
from homing.domain.failure import Failure
from homing.ports import Envelope, Query
from homing.testing.clocks import ManualClock
from homing_systems.verdicts.delivering import deliver, enqueue
from homing_systems.verdicts.route import DUPLICATE_NOTICE
from homing_systems.verdicts.verdict import Verdict
from tests.conformance.verdicts.office import DAY_S, ODD_JSON, PAID, Office, body

UUID4 = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")


async def records(office: Office) -> int:
    return sum((await office.homing.store.count(Query(route="verdicts"))).values())


def text_of(envelope: Envelope) -> str:
    part = message_from_bytes(envelope.data, policy=policy.default).get_body(("plain",))
    assert part is not None
    text: str = part.get_content()
    return text.replace("\r\n", "\n").rstrip("\n")


async def test_a_healthy_send_is_answered_with_sent(tmp_path: Path, clock: ManualClock) -> None:
    """O-049, O-023, O-132: in an empty folder."""
    async with Office(tmp_path, clock).open() as office:
        answer = await office.post()

    assert (answer.status_code, answer.json()) == (200, {"outcome": "sent"})
    assert office.deliveries() == [
        "2026-02-23T10:00:00.000Z DELIVERED session=cs_1 to=ann@example.org tier=full attempt=0"
    ]
    assert office.alerts() == []


async def test_the_second_try_is_made_in_the_same_call(tmp_path: Path, clock: ManualClock) -> None:
    """O-053, O-042: although no worker runs."""
    async with Office(tmp_path, clock, "503", "202").open() as office:
        answer = await office.post()

    assert answer.json() == {"outcome": "sent"}
    assert office.graph.called_at_s == [0.0, 0.0]
    assert [line.rpartition(" ")[2] for line in office.deliveries()] == ["attempt=1"]


@pytest.mark.parametrize("code", ["500", "503", "504", "429"])
async def test_what_failed_is_queued(tmp_path: Path, clock: ManualClock, code: str) -> None:
    """O-001, O-004"""
    async with Office(tmp_path, clock, code, code).open() as office:
        answer = await office.post()
        assert await records(office) == 1

    assert answer.status_code == 202
    assert answer.json().keys() == {"outcome", "retry_id"}
    assert answer.json()["outcome"] == "queued"
    assert UUID4.fullmatch(answer.json()["retry_id"])


async def test_each_of_a_thousand_records_has_a_new_uuid(
    tmp_path: Path, clock: ManualClock
) -> None:
    """O-009: version 4, as another program reads it in the queue."""
    async with Office(tmp_path, clock).open() as office:
        for number in range(1000):
            asked = {**PAID, "session_id": f"cs_{number}", "verdict": ODD_JSON}
            await enqueue(office.service, Verdict(**asked))
    lines = office.lines()

    assert len({line["session_id"] for line in lines}) == 1000
    retry_ids = {line["retry_id"] for line in lines}
    assert len(retry_ids) == 1000
    assert all(UUID4.fullmatch(retry_id) for retry_id in retry_ids)


async def test_a_send_that_hangs_is_queued_with_code_minus_one(
    tmp_path: Path, clock: ManualClock
) -> None:
    """O-005, O-035"""
    async with Office(tmp_path, clock, "timeout", "timeout").open() as office:
        answer = await office.post()
        found = await office.homing.ops.show(answer.json()["retry_id"])
        await office.work_for(DAY_S)

    assert answer.json()["outcome"] == "queued"
    assert found.failure is not None
    assert found.failure.code is None
    assert office.deliveries()[0].endswith("attempt=2")


@pytest.mark.parametrize("code", ["400", "403"])
async def test_an_abort_is_answered_with_dead(
    tmp_path: Path, clock: ManualClock, code: str
) -> None:
    """O-090, O-092, O-027: dead letter and alert are written before the answer."""
    async with Office(tmp_path, clock, code).open() as office:
        answer = await office.post()
        again = await office.post()

    retry_id = answer.json()["retry_id"]
    assert answer.status_code == 200
    assert answer.json() == again.json() == {"outcome": "dead", "retry_id": retry_id}
    assert [letter["retry_id"] for letter in office.dead_letters()] == [retry_id]
    [alert] = office.alerts()
    assert alert == (
        "[ALERT][oracle-email-retry] DEAD LETTER: session_id=cs_1 customer=ann@example.org"
        f" tier=full attempts=0 last_error={code}"
    )
    assert len(office.graph.calls) == 1


async def test_a_session_is_sent_once_however_often_it_is_posted(
    tmp_path: Path, clock: ManualClock
) -> None:
    """O-078, O-079, O-080: one after the other, and all at once."""
    async with Office(tmp_path, clock).open() as office:
        first = await office.post()
        again = await office.post(query="another")
        many = await asyncio.gather(*(office.post(session_id="cs_2") for _ in range(10)))

    assert first.json() == again.json() == {"outcome": "sent"}
    assert {answer.status_code for answer in many} <= {200, 202}
    assert len(office.graph.accepted) == 2
    assert sorted(line.split()[2] for line in office.deliveries()) == [
        "session=cs_1",
        "session=cs_2",
    ]


async def test_a_queued_session_is_answered_with_its_record(
    tmp_path: Path, clock: ManualClock
) -> None:
    """O-060, O-059, O-010"""
    async with Office(tmp_path, clock, "503", "503").open() as office:
        first, again = await office.post(), await office.post()
        assert await records(office) == 1
        [stored] = (await office.homing.store.page(Query(route="verdicts"))).items

    assert first.json() == again.json()
    assert first.json()["retry_id"] == stored.id
    assert stored.key == "cs_1"


async def test_a_session_in_the_delivery_log_gets_no_record(
    tmp_path: Path, clock: ManualClock
) -> None:
    """O-062, O-063, O-131: also one that another program has written there."""
    log = tmp_path / "delivery.log"
    line = "2026-01-01T00:00:00Z DELIVERED session=cs_1 to=ann@example.org tier=full attempt=2\n"
    log.write_text(line)
    async with Office(tmp_path, clock).open() as office:
        logged = await office.post()
        other = await office.post(session_id="cs_10")
        assert await records(office) == 1

    assert logged.json() == other.json() == {"outcome": "sent"}
    assert [envelope.recipients for envelope in office.graph.accepted] == [("ann@example.org",)]
    assert log.read_text().startswith(line)
    assert len(office.deliveries()) == 2


async def test_a_session_is_known_after_a_restart(tmp_path: Path, clock: ManualClock) -> None:
    """O-131, O-078"""
    async with Office(tmp_path, clock).open() as office:
        await office.post()
    (tmp_path / "queue.jsonl").unlink()
    shutil.rmtree(tmp_path / "queue.jsonl.d")

    async with Office(tmp_path, clock).open() as office:
        answer = await office.post()

    assert answer.json() == {"outcome": "sent"}
    assert office.graph.calls == []


@pytest.mark.parametrize("address", [None, ""])
async def test_without_an_address_the_verdict_stays_on_its_page(
    tmp_path: Path, clock: ManualClock, caplog: pytest.LogCaptureFixture, address: str | None
) -> None:
    """O-115, O-116, O-134"""
    async with Office(tmp_path, clock).open() as office:
        with caplog.at_level(logging.WARNING):
            answer = await office.post(customer_email=address)
        assert await records(office) == 0

    assert (answer.status_code, answer.json()) == (200, {"outcome": "cache_only"})
    assert "no_address session_id=cs_1" in caplog.text


@pytest.mark.parametrize("status", ["unpaid", "no_payment_required", None, "PAID", ""])
async def test_what_is_not_paid_is_refused(
    tmp_path: Path, clock: ManualClock, status: str | None
) -> None:
    """O-051, O-052"""
    async with Office(tmp_path, clock).open() as office:
        answer = await office.post(payment_status=status)
        nobody = await office.post(payment_status=status, customer_email=None)
        assert await records(office) == 0

    assert answer.status_code == nobody.status_code == 422
    assert answer.json()["field"] == "payment_status"
    assert office.graph.calls == []


@pytest.mark.parametrize(
    "field", ["session_id", "payment_status", "customer_email", "tier", "query"]
)
async def test_a_missing_field_is_refused(tmp_path: Path, clock: ManualClock, field: str) -> None:
    """O-019, O-012"""
    fields = {name: value for name, value in PAID.items() if name != field}
    async with Office(tmp_path, clock).open() as office:
        data = json.dumps({**fields, "verdict": {}}).encode()
        answer = await office.client.post("/send-verdict-email", content=data)
        assert await records(office) == 0

    assert answer.status_code == 422
    assert field in answer.text


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"tier": "gold"}, "tier"),
        ({"tier": "Full"}, "tier"),
        ({"session_id": "cs_1 to=eve@example.org"}, "session_id"),
        ({"session_id": ""}, "session_id"),
        ({"customer_email": "ann@example.org\nX DELIVERED session=cs_9 "}, "customer_email"),
        ({"customer_email": "nobody"}, "customer_email"),
        ({"session_id": 7}, "session_id"),
        ({"query": None}, "query"),
    ],
)
async def test_a_wrong_field_is_named(
    tmp_path: Path, clock: ManualClock, changes: dict[str, Any], named: str
) -> None:
    """O-012, O-010"""
    async with Office(tmp_path, clock).open() as office:
        answer = await office.post(**changes)
        assert await records(office) == 0

    assert answer.status_code == 422
    assert named in answer.text


@pytest.mark.parametrize("verdict", ["[]", '"text"', "null", "7"])
async def test_a_verdict_is_an_object(tmp_path: Path, clock: ManualClock, verdict: str) -> None:
    """O-014"""
    async with Office(tmp_path, clock).open() as office:
        answer = await office.post(verdict)

    assert (answer.status_code, answer.json()["field"]) == (422, "verdict")


@pytest.mark.parametrize("data", [b"", b"{", b'{"verdict": {,}}', b"\xff\xfe"])
async def test_what_is_not_json_is_refused(tmp_path: Path, clock: ManualClock, data: bytes) -> None:
    async with Office(tmp_path, clock).open() as office:
        answer = await office.client.post("/send-verdict-email", content=data)

    assert answer.status_code == 400


@pytest.mark.parametrize(
    "verdict",
    [
        ODD_JSON,
        '{"z": 1.0, "a": 1e2, "big": 123456789012345678901234567890, "é": "\\u00e9"}',
        '{  "spaced" :\t"tab" , "nested": {"unknown": [{}, [], -0.0]}}',
        '{"twice": 1, "twice": 2}',
        '{"long": "' + "x" * 3000 + '"}',
        '{"nul": "\\u0000", "pair": "\\ud834\\udd1e", "separator": "\u2028"}',
    ],
)
async def test_the_verdict_is_mailed_byte_for_byte(
    tmp_path: Path, clock: ManualClock, verdict: str
) -> None:
    """O-096, O-014, O-066: on every attempt."""
    async with Office(tmp_path, clock, *["503"] * 5).open() as office:
        await office.post(verdict)
        await office.work_for(DAY_S)

    assert [text_of(envelope) for envelope in office.graph.calls] == [verdict] * 5
    assert len({envelope.data for envelope in office.graph.calls}) == 1


async def test_a_verdict_on_several_lines_is_mailed_as_it_is(
    tmp_path: Path, clock: ManualClock
) -> None:
    """O-096, O-043: its line in a file has spaces instead of the breaks."""
    async with Office(tmp_path, clock, "400").open() as office:
        await office.post('{\n  "a": 1.0\r\n}')

    assert text_of(office.graph.calls[0]) == '{\n  "a": 1.0\n}'
    [line] = (tmp_path / "dead.jsonl").read_text().splitlines()
    assert '"verdict":{   "a": 1.0  }' in line


async def test_the_query_is_kept_as_given(tmp_path: Path, clock: ManualClock) -> None:
    """O-013"""
    query = 'Is <b>"this"</b> & that\n\u2028 good? ✓ 𝄞'
    async with Office(tmp_path, clock, "400").open() as office:
        await office.post(query=query)

    assert office.dead_letters()[0]["query"] == query
    part = message_from_bytes(office.graph.calls[0].data, policy=policy.default).get_body(("html",))
    assert part is not None
    assert 'Is &lt;b&gt;"this"&lt;/b&gt; &amp; that' in part.get_content()


async def test_what_may_be_a_repeat_says_so_below_the_verdict(
    tmp_path: Path, clock: ManualClock
) -> None:
    """O-118, O-120"""
    async with Office(tmp_path, clock, "maybe").open() as office:
        answer = await office.post()

    assert answer.json() == {"outcome": "sent"}
    first, second = office.graph.accepted
    assert text_of(first) == ODD_JSON
    assert text_of(second) == f"{ODD_JSON}\n\n{DUPLICATE_NOTICE}"
    html = message_from_bytes(second.data, policy=policy.default).get_body(("html",))
    assert html is not None
    assert f"</pre>\r\n<p><small>{DUPLICATE_NOTICE}</small></p>" in html.get_content()
    assert DUPLICATE_NOTICE.encode() not in first.data


async def test_a_worker_of_others_is_told_how_it_went_and_nothing_is_recorded(
    tmp_path: Path, clock: ManualClock
) -> None:
    """O-066, O-068, O-022"""
    retry_id = "7f3d1c52-8f4e-4c0b-9d5a-0c6f2b7a1e11"
    async with Office(tmp_path, clock, "503", "202").open() as office:
        failed = await office.post(retry_id=retry_id)
        sent = await office.post(retry_id=retry_id)
        wrong = await office.post(retry_id="cs 1")
        assert await records(office) == 0

    assert failed.status_code == 502
    assert (failed.json()["outcome"], failed.json()["code"]) == ("failed", 503)
    assert isinstance(failed.json()["detail"], str)
    assert (sent.status_code, sent.json()) == (200, {"outcome": "sent"})
    assert wrong.status_code == 422
    assert [text_of(envelope) for envelope in office.graph.calls] == [ODD_JSON] * 2
    assert office.deliveries() == office.alerts() == []


async def test_a_worker_of_others_repeats_no_mail(tmp_path: Path, clock: ManualClock) -> None:
    """O-062, O-068"""
    async with Office(tmp_path, clock).open() as office:
        await office.post()
        again = await office.post(retry_id="7f3d1c52-8f4e-4c0b-9d5a-0c6f2b7a1e11")

    assert again.json() == {"outcome": "sent"}
    assert len(office.graph.calls) == 1


async def test_a_lock_that_is_not_had_is_alerted_and_answered_with_503(
    tmp_path: Path, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """O-101, O-104"""
    async with Office(tmp_path, clock).open() as office:

        async def locked(*given: object) -> None:
            raise StoreLocked("the lock was not had within 5 s")

        with monkeypatch.context() as patch:
            patch.setattr(office.homing.store, "commit", locked)
            refused = await office.post()
        assert await records(office) == 0
        repeated = await office.post()

    assert refused.status_code == 503
    [alert] = office.alerts()
    assert alert == (
        "[ALERT][oracle-email-retry] LOCK TIMEOUT: session_id=cs_1 was not recorded:"
        " the lock was not had within 5 s at=2026-02-23T10:00:00.000Z"
    )
    assert repeated.json() == {"outcome": "sent"}


async def test_an_unexpected_error_in_the_provider_is_an_attempt(
    tmp_path: Path, clock: ManualClock
) -> None:
    """O-109, O-106: other sessions go on."""
    surprise = RuntimeError("refresh token")
    async with Office(tmp_path, clock, surprise, surprise, "202").open() as office:
        first = await office.post()
        second = await office.post(session_id="cs_2")
        found = await office.homing.ops.show(first.json()["retry_id"])

    assert (first.json()["outcome"], found.attempts_spent) == ("queued", 1)
    assert second.json() == {"outcome": "sent"}


async def test_a_library_call_delivers_too(tmp_path: Path, clock: ManualClock) -> None:
    """O-007, O-033"""
    verdict = Verdict(**PAID, verdict=ODD_JSON)
    async with Office(tmp_path, clock, "503").open() as office:
        queued = await enqueue(office.service, verdict)
        again = await deliver(office.service, verdict)
        assert office.graph.calls == []
        await office.work_for(DAY_S)

    assert (queued.outcome, again) == ("queued", queued)
    assert office.graph.called_at_s == [0.0, 300.0]


async def test_a_revoked_token_is_alerted_by_its_name(tmp_path: Path, clock: ManualClock) -> None:
    """O-107, O-108, O-026"""
    revoked = Failure("token_revoked", "route_fault", code="401", detail="invalid_grant")
    async with Office(tmp_path, clock, revoked).open() as office:
        answer = await office.post()

    assert answer.json()["outcome"] == "dead"
    [letter] = office.dead_letters()
    assert (letter["status"], letter["last_error_code"], letter["attempt_count"]) == (
        "DEAD",
        401,
        0,
    )
    dead, token = sorted(office.alerts())
    assert dead.endswith("attempts=0 last_error=401")
    assert "GRAPH_REFRESH_TOKEN revoked" in token


def test_the_body_of_a_test_holds_the_verdict_as_text() -> None:
    assert ODD_JSON.encode() in body()
