"""Booking and cancelling: the change stands whatever happens to its mail."""

from __future__ import annotations

import asyncio
import json
import logging
import uuid
from email import message_from_bytes, policy
from email.message import EmailMessage
from pathlib import Path

import pytest

from homing.domain.errors import StoreUnavailable
from homing.observers.logs import LogObserver
from homing.ports import Answers, Batch, Envelope
from homing.testing.clocks import ManualClock
from homing_systems.bookings.app.settings import BookingsSettings
from homing_systems.bookings.payloads import Booking
from homing_systems.bookings.plugin import PLUGIN
from tests.conformance.bookings.site import ANN, Site, until


def parsed(envelope: Envelope) -> EmailMessage:
    message = message_from_bytes(envelope.data, policy=policy.default)
    assert isinstance(message, EmailMessage)
    return message


def calendar_of(envelope: Envelope) -> EmailMessage:
    [part] = [p for p in parsed(envelope).walk() if p.get_content_type() == "text/calendar"]
    assert isinstance(part, EmailMessage)
    return part


async def test_a_healthy_mail_is_sent_at_once_and_leaves_no_row(
    tmp_path: Path, clock: ManualClock
) -> None:
    """B-002, B-061, B-104"""
    async with Site(tmp_path, clock).running() as site:
        await site.book()
        await site.tried(1)

        assert site.rows() == []
        [envelope] = site.smtp.accepted
        assert parsed(envelope)["To"] == "Ann Lee <ann@example.org>"


async def test_a_booking_stands_while_the_server_is_down(
    tmp_path: Path, clock: ManualClock
) -> None:
    """B-001, B-105, B-115"""
    async with Site(tmp_path, clock, "451").running() as site:
        booking_id = await site.book()
        await site.tried(1)

        row = site.row()
        assert str(uuid.UUID(booking_id)) == booking_id
        assert (row["status"], row["attempts"], row["max_attempts"]) == ("pending", 0, 5)
        assert row["created_at"] == "2026-02-23T10:00:00.000Z"
        assert row["next_retry_at"] == "2026-02-23T10:00:30.000Z"


async def test_a_row_is_enough_to_send_the_mail_as_it_was(
    tmp_path: Path, clock: ManualClock
) -> None:
    """B-003, B-006, B-011"""
    async with Site(tmp_path, clock, "451").running() as site:
        booking_id = await site.book()
        await site.tried(1)
        with_booking = site.smtp.calls[0].data
        site.sql("delete from bookings where id = ?", booking_id)
        await site.work_after(30)

        assert site.smtp.accepted[0].data == with_booking
        assert site.rows() == []


@pytest.mark.parametrize("answer", ["451", "550", RuntimeError("broken"), OSError("no route")])
async def test_any_failure_of_the_inline_call_makes_a_row(
    tmp_path: Path, clock: ManualClock, answer: str | Exception
) -> None:
    """B-063, B-064, B-096"""
    async with Site(tmp_path, clock, answer).running() as site:
        await site.book()
        await site.tried(1)

        assert site.row()["attempts"] == 0
        assert len(site.smtp.calls) == 1


async def test_a_booking_does_not_wait_for_a_server_that_hangs(
    tmp_path: Path, clock: ManualClock
) -> None:
    """B-067, B-111"""
    site = Site(tmp_path, clock)
    answers, sent = asyncio.Event(), asyncio.Event()

    async def hang(envelope: Envelope) -> None:
        await answers.wait()
        sent.set()

    site.smtp.watch = hang
    async with site.running():
        await site.book()
        assert not sent.is_set()
        answers.set()
        await site.tried(1)


async def test_a_store_that_refuses_the_mail_does_not_fail_the_booking(
    tmp_path: Path,
    clock: ManualClock,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """B-065, B-066"""

    async with Site(tmp_path, clock).running() as site:
        commit = site.homing.store.commit

        async def refuse(batch: Batch) -> Answers:
            if any(put.kind == "add" for put in batch.puts):
                raise StoreUnavailable("locked")
            return await commit(batch)

        with monkeypatch.context() as patch:
            patch.setattr(site.homing.store, "commit", refuse)
            await site.book()
            await site.app.state.desk.stop()
    [line] = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert "not_recorded" in line.getMessage()

    async with Site(tmp_path, clock).running() as site:
        await site.tried(1)
        assert len(site.smtp.accepted) == 1


@pytest.mark.parametrize("surprise", [TypeError("a bug"), StoreUnavailable("locked")])
async def test_a_notice_never_raises(
    tmp_path: Path,
    clock: ManualClock,
    monkeypatch: pytest.MonkeyPatch,
    surprise: Exception,
) -> None:
    """B-066"""

    async def fail(*args: object, **kwargs: object) -> None:
        raise surprise

    async with Site(tmp_path, clock).running() as site:
        monkeypatch.setattr(site.homing, "send", fail)
        await site.book()
        await site.app.state.desk.stop()


async def test_without_mail_nothing_is_sent_or_queued(
    tmp_path: Path, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    """B-060"""
    caplog.set_level(logging.DEBUG, "homing.bookings")
    async with Site(tmp_path, clock, mail=False).running() as site:
        await site.book()
        await site.app.state.desk.stop()

        assert site.sql("select count(*) from homing_deliveries") == [(0,)]
    assert {record.levelno for record in caplog.records} == {logging.DEBUG}
    assert any("mail_off" in record.getMessage() for record in caplog.records)

    async with Site(tmp_path, clock).running() as site:
        assert site.sql("select count(*) from homing_keys") == [(0,)]
        assert site.smtp.calls == []


async def test_a_start_sends_what_was_owed_and_never_recorded_once(
    tmp_path: Path, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B-001, B-113"""

    async def die(*args: object) -> None:
        """The process ended between the commit and the send."""

    async with Site(tmp_path, clock).running() as site:
        await site.log_in()
        monkeypatch.setattr(site.app.state.desk, "_notify", die)
        lost = await site.book()
        cancelled = await site.book(start="2026-03-03T10:00:00Z")
        await site.cancel(cancelled)

    async with Site(tmp_path, clock).running() as site:
        await site.tried(3)
        subjects = [parsed(each)["Subject"] for each in site.smtp.accepted]
        keys = {key for (key,) in site.sql("select key from homing_keys")}

    async with Site(tmp_path, clock).running() as again:
        assert again.smtp.calls == []

    assert sorted(subject.partition(":")[0] for subject in subjects) == [
        "Booked",
        "Booked",
        "Cancelled",
    ]
    assert keys == {
        f"{lost}/confirmation",
        f"{cancelled}/confirmation",
        f"{cancelled}/cancellation",
    }


async def test_a_cancelled_booking_is_told_to_the_guest(tmp_path: Path, clock: ManualClock) -> None:
    """B-068, B-073"""
    site = Site(tmp_path, clock)
    states: list[object] = []

    async def look(envelope: Envelope) -> None:
        states.extend(site.sql("select cancelled_at_ms is not null from bookings"))

    async with site.running():
        await site.log_in()
        booking_id = await site.book()
        await site.tried(1)
        site.smtp.watch = look
        answer = await site.cancel(booking_id)
        await site.tried(2)

    assert answer.status_code == 200
    assert states == [(1,)]
    cancellation = site.smtp.accepted[1]
    assert parsed(cancellation)["Subject"].startswith("Cancelled: Call")
    assert calendar_of(cancellation).get_param("method") == "CANCEL"


@pytest.mark.parametrize("failure", ["451", RuntimeError("broken")])
async def test_a_cancellation_that_was_not_sent_is_delivered_later(
    tmp_path: Path, clock: ManualClock, failure: str | Exception
) -> None:
    """B-069, B-097, B-108"""
    async with Site(tmp_path, clock).running() as site:
        await site.log_in()
        booking_id = await site.book()
        await site.tried(1)
        site.smtp.answer(failure)
        await site.cancel(booking_id)
        await site.tried(2)

        assert (site.row()["status"], site.row()["ics_method"]) == ("pending", "CANCEL")
        await site.work_after(30)
        assert calendar_of(site.smtp.accepted[-1]).get_param("method") == "CANCEL"
        assert site.rows() == []


async def test_cancel_answers_alike_with_the_server_up_and_down(
    tmp_path: Path, clock: ManualClock
) -> None:
    """B-070"""
    async with Site(tmp_path, clock).running() as site:
        await site.log_in()
        up = await site.book()
        down = await site.book(start="2026-03-03T10:00:00Z")
        await site.tried(2)
        first = await site.cancel(up)
        await site.tried(3)
        site.smtp.answer("451")
        second = await site.cancel(down)

        assert (first.status_code, first.json()) == (200, {"id": up, "status": "cancelled"})
        assert (second.status_code, second.json()) == (200, {"id": down, "status": "cancelled"})


async def test_a_cancel_that_failed_sends_nothing(tmp_path: Path, clock: ManualClock) -> None:
    """B-071"""
    async with Site(tmp_path, clock).running() as site:
        await site.log_in()
        booking_id = await site.book()
        await site.tried(1)
        await site.cancel(booking_id)
        await site.tried(2)

        assert (await site.cancel("no-such-booking")).status_code == 404
        assert (await site.cancel(booking_id)).status_code == 409
        await site.app.state.desk.stop()
        assert len(site.smtp.calls) == 2
        assert site.rows() == []


@pytest.mark.parametrize("calendar_fails", [False, True])
async def test_the_calendar_event_is_deleted_whatever_the_mail_does(
    tmp_path: Path, clock: ManualClock, calendar_fails: bool
) -> None:
    """B-119"""
    deleted: list[str] = []

    async def delete(booking: Booking) -> None:
        deleted.append(booking.id)
        if calendar_fails:
            raise RuntimeError("no calendar")

    site = Site(tmp_path, clock, "451", "451", delete_calendar_event=delete)
    async with site.running():
        await site.log_in()
        booking_id = await site.book()
        answer = await site.cancel(booking_id)
        await site.tried(2)
        await site.app.state.desk.stop()

        assert answer.status_code == 200
        assert deleted == [booking_id]
        assert len(site.rows()) == 2


async def test_the_calendar_part_and_the_hidden_copy_survive_the_queue(
    tmp_path: Path, clock: ManualClock
) -> None:
    """B-018, B-020, B-048"""
    settings = BookingsSettings(admin_password="x", bcc="host@example.org, boss@example.org")
    async with Site(tmp_path, clock, "451", settings=settings).running() as site:
        await site.book()
        await site.tried(1)
        row = site.row()
        await site.work_after(30)

        [envelope] = site.smtp.accepted
        part = calendar_of(envelope)
        assert row["bcc"] == "host@example.org, boss@example.org"
        assert (row["ics_method"], part.get_param("method")) == ("REQUEST", "REQUEST")
        assert part.get_content() == row["ics_content"]
        assert set(envelope.recipients) == {
            "ann@example.org",
            "host@example.org",
            "boss@example.org",
        }
        assert b"boss@example.org" not in envelope.data


async def test_the_whole_way_to_a_failed_row_by_the_clock(
    tmp_path: Path, clock: ManualClock
) -> None:
    """B-008, B-116, B-117"""
    async with Site(tmp_path, clock, *["451"] * 6).running() as site:
        await site.book()
        await site.tried(1)
        for wait_s in (30, 60, 120, 240, 480):
            await site.work_after(wait_s - 0.001)
            await site.work_after(0.001)

        assert site.smtp.called_at_s == [0.0, 30.0, 90.0, 210.0, 450.0, 930.0]
        assert (site.row()["status"], site.row()["attempts"]) == ("failed", 5)


async def test_a_restart_goes_on_from_what_is_stored(tmp_path: Path, clock: ManualClock) -> None:
    """B-113, B-114"""
    async with Site(tmp_path, clock, "451", "451").running() as site:
        await site.book()
        await site.tried(1)
        await site.work_after(30)
        before = site.row()

    async with Site(tmp_path, clock, *["451"] * 9).running() as site:
        assert site.row() == before
        for wait_s in (60, 120, 240, 480, 24 * 3600):
            await site.work_after(wait_s)

        assert site.smtp.called_at_s == [90.0, 210.0, 450.0, 930.0]
        assert site.row()["status"] == "failed"


async def test_a_taken_time_and_a_wrong_field_are_refused(
    tmp_path: Path, clock: ManualClock
) -> None:
    """B-001"""
    async with Site(tmp_path, clock).running() as site:
        await site.book()
        overlapping = await site.client.post(
            "/api/book", json={**ANN, "start": "2026-03-02T10:29:00Z"}
        )
        assert overlapping.status_code == 409
        for field, value in (
            ("name", ""),
            ("name", "  "),
            ("name", "Ann\r\nBcc: all@example.org"),
            ("email", "not an address"),
            ("start", "tomorrow"),
            ("start", "2026-03-02T10:00:00"),
            ("start", "2026-02-23T10:00:00Z"),
            ("start", "9999-12-31T23:59:00Z"),
            ("title", "x" * 300),
        ):
            answer = await site.client.post("/api/book", json={**ANN, field: value})
            assert answer.status_code == 422, (field, value)
            assert answer.json()["detail"][0]["loc"] == ["body", field]
        await site.tried(1)
        assert len(site.smtp.calls) == 1


async def test_levels_of_log_lines(
    tmp_path: Path, clock: ManualClock, capsys: pytest.CaptureFixture[str]
) -> None:
    """B-053, B-062, B-100"""
    site = Site(tmp_path, clock, *["451"] * 6)
    async with site.running():
        site.homing.engine.add_observer(LogObserver("info", "json", PLUGIN.log_fields))
        await site.book()
        await site.tried(1)
        for wait_s in (30, 60, 120, 240, 480):
            await site.work_after(wait_s)
        await site.book(start="2026-03-03T10:00:00Z")
        await site.tried(7)

        lines: list[str] = []

        async def all_told() -> bool:
            lines.extend(capsys.readouterr().err.splitlines())
            return len(lines) == 7

        await until(all_told)

    said = [json.loads(line) for line in lines]
    assert [line["level"] for line in said] == ["warning"] * 5 + ["error", "info"]
    assert {line["SourceContext"] for line in said} == {"Michael.EmailOutbox"}


async def test_pages_say_that_mail_is_off(tmp_path: Path, clock: ManualClock) -> None:
    """B-060"""
    async with Site(tmp_path, clock, mail=False).running() as site:
        booking_id = await site.book()
        await site.log_in()
        shown = {
            path: (await site.client.get(path)).text
            for path in ("/", f"/booked/{booking_id}", "/admin", "/admin/email-queue")
        }
        cancelling = (await site.client.get(f"/admin/bookings/{booking_id}/cancel")).text

    assert not any("by email" in text for text in (*shown.values(), cancelling))
    for path in ("/admin", "/admin/email-queue"):
        assert "<code>HOMING_PROVIDER</code> is not set" in shown[path]


async def test_more_bookings_than_the_dashboard_shows_still_take_their_times(
    tmp_path: Path, clock: ManualClock
) -> None:
    async with Site(tmp_path, clock, mail=False).running() as site:
        await site.book(start="2026-02-24T16:30:00Z")
        site.sql(
            "with recursive n(n) as (select 0 union all select n + 1 from n where n < 249)"
            " insert into bookings select 'b' || n, name, email, title, start_ms - 36000000 + n,"
            " start_ms - 36000000 + n + 1, created_at_ms, null, 0, 0 from bookings, n"
        )
        await site.log_in()
        day = (await site.client.get("/?day=2026-02-24")).text
        figures = (await site.client.get("/api/admin/dashboard")).json()
        dashboard = (await site.client.get("/admin")).text

    [last] = [line for line in day.splitlines() if 'value="2026-02-24T16:30:00Z"' in line]
    assert "disabled" in day.partition(last)[2].partition(">")[0] or "disabled" in last
    assert figures["upcomingBookingCount"] == 251
    assert "the next 200 of 251" in dashboard
