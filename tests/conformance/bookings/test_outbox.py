"""The functions of the outbox: what each does to a row, and what it says when it cannot."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from msgspec.structs import asdict, replace

from homing import Event, Homing
from homing.domain.message import Invitation
from homing.plugins.value import Service
from homing.settings import Settings
from homing.stores.layout import iso_utc
from homing.testing.clocks import ManualClock
from homing_systems.bookings import outbox
from homing_systems.bookings.app.settings import BookingsSettings
from homing_systems.bookings.outbox import OutboxCounts, OutboxError
from homing_systems.bookings.payloads import EmailPayload
from homing_systems.bookings.record import OutboxEntry, OutboxStatus
from tests.conformance.bookings.site import Site
from tests.conformance.world import START_MS

CANCEL = (
    "BEGIN:VCALENDAR\r\nVERSION:2.0\r\nPRODID:-//t//EN\r\nMETHOD:CANCEL\r\nBEGIN:VEVENT\r\n"
    "UID:booking-1\r\nDTSTAMP:20260223T100000Z\r\nDTSTART:20260224T100000Z\r\n"
    "END:VEVENT\r\nEND:VCALENDAR\r\n"
)
PAYLOAD = EmailPayload(
    to_address="ann@example.org",
    to_name="Ann Lee",
    subject="Booked",
    body="See you Monday",
    bcc="host@example.org",
    ics_attachment=Invitation(CANCEL, "CANCEL"),
)
ENTRY = outbox.create_outbox_entry_from_payload("row-1", PAYLOAD, START_MS)
FAILED = replace(
    ENTRY,
    id="row-2",
    status=OutboxStatus.FAILED,
    attempts=5,
    max_attempts=9,
    last_error="451 later",
    created_at=iso_utc(START_MS + 1),
)


@pytest.fixture
async def site(tmp_path: Path, clock: ManualClock) -> AsyncIterator[Site]:
    async with Site(tmp_path, clock).running() as site:
        yield site


async def entries(site: Site) -> dict[str, OutboxEntry]:
    found = await outbox.list_outbox_entries(site.service)
    assert not isinstance(found, OutboxError)
    return {entry.id: entry for entry in found}


async def insert(site: Site, *given: OutboxEntry) -> None:
    for entry in given:
        assert await outbox.insert_outbox_entry(site.service, entry) is None


def damage(folder: Path) -> None:
    for path in folder.glob("bookings.db*"):
        if path.is_file():
            path.write_bytes(b"not a database" * 100)


def is_error(result: object, kind: str) -> bool:
    return isinstance(result, OutboxError) and result.kind == kind


def test_the_schedule() -> None:
    """B-008, B-033, B-094"""
    delays_ms = [outbox.compute_next_retry(START_MS, made) - START_MS for made in range(5)]

    assert delays_ms == [30_000, 60_000, 120_000, 240_000, 480_000]


def test_an_entry_of_a_payload() -> None:
    """B-034, B-055, B-072"""
    assert asdict(ENTRY) == {
        "id": "row-1",
        "to_address": "ann@example.org",
        "to_name": "Ann Lee",
        "subject": "Booked",
        "body": "See you Monday",
        "bcc": "host@example.org",
        "ics_content": CANCEL,
        "ics_method": "CANCEL",
        "status": "pending",
        "attempts": 0,
        "max_attempts": 5,
        "next_retry_at": "2026-02-23T10:00:30.000Z",
        "last_error": None,
        "created_at": "2026-02-23T10:00:00.000Z",
    }


def test_a_status_is_one_of_two_words() -> None:
    """B-029, B-084, B-098"""
    assert [OutboxStatus("pending"), OutboxStatus("failed")] == list(OutboxStatus)
    assert [str(status) for status in OutboxStatus] == ["pending", "failed"]
    with pytest.raises(ValueError, match="sent"):
        OutboxStatus("sent")


async def test_an_inserted_row_is_read_back_field_for_field(site: Site) -> None:
    """B-030, B-035, B-092"""
    await insert(site, ENTRY, FAILED)

    assert await entries(site) == {"row-1": ENTRY, "row-2": FAILED}
    assert is_error(await outbox.insert_outbox_entry(site.service, ENTRY), "conflict")
    wrong = replace(ENTRY, id="row-3", to_address="nobody")
    assert is_error(await outbox.insert_outbox_entry(site.service, wrong), "invalid")
    assert len(await entries(site)) == 2


async def test_pending_rows_that_are_due_oldest_first(site: Site) -> None:
    """B-036, B-047, B-093"""
    due = [
        replace(ENTRY, id=name, next_retry_at=iso_utc(START_MS + at_ms))
        for name, at_ms in (
            ("late", 20_000),
            ("early", 10_000),
            ("now", 30_000),
            ("future", 30_001),
        )
    ]
    await insert(site, *due, FAILED)

    found = await outbox.get_pending_entries(site.service, START_MS + 30_000)

    assert not isinstance(found, OutboxError)
    assert [entry.id for entry in found] == ["early", "late", "now"]


async def test_rows_due_at_one_time_come_by_creation_and_then_id(site: Site) -> None:
    """B-036"""
    rows = [
        replace(ENTRY, id=name, created_at=iso_utc(START_MS + at_ms))
        for name, at_ms in (("c", 0), ("a", 1), ("b", 0))
    ]
    await insert(site, *rows)

    found = await outbox.get_pending_entries(site.service, START_MS + 30_000)

    assert not isinstance(found, OutboxError)
    assert [entry.id for entry in found] == ["b", "c", "a"]


async def test_sent_rows_are_removed(site: Site) -> None:
    """B-037, B-049"""
    await insert(site, ENTRY)

    assert await outbox.mark_sent(site.service, "row-1") is None
    assert await entries(site) == {}
    assert is_error(await outbox.mark_sent(site.service, "row-1"), "unknown")


async def test_a_retry_counts_and_keeps_the_row_pending(site: Site) -> None:
    """B-038, B-051"""
    await insert(site, ENTRY)
    at_ms = outbox.compute_next_retry(START_MS + 30_000, 1)

    assert await outbox.mark_retry(site.service, "row-1", at_ms, "451 later") is None

    [row] = (await entries(site)).values()
    assert row == replace(ENTRY, attempts=1, next_retry_at=iso_utc(at_ms), last_error="451 later")


async def test_a_retry_beyond_the_budget_is_the_callers_decision(site: Site) -> None:
    """B-038"""
    await insert(site, replace(ENTRY, attempts=4))

    assert await outbox.mark_retry(site.service, "row-1", START_MS, "again") is None

    [row] = (await entries(site)).values()
    assert (row.status, row.attempts, row.max_attempts) == ("pending", 5, 5)


async def test_the_last_failure_makes_a_failed_row(site: Site) -> None:
    """B-039, B-050"""
    await insert(site, replace(ENTRY, attempts=4))

    assert await outbox.mark_failed(site.service, "row-1", "550 no such user") is None

    [row] = (await entries(site)).values()
    assert (row.status, row.attempts, row.last_error) == ("failed", 5, "550 no such user")
    assert is_error(await outbox.mark_failed(site.service, "row-1", "again"), "conflict")


async def test_the_list_is_newest_first_with_both_statuses(site: Site) -> None:
    """B-040, B-078"""
    await insert(site, ENTRY, FAILED, replace(ENTRY, id="row-0"))

    assert list(await entries(site)) == ["row-2", "row-1", "row-0"]


async def test_counts(site: Site) -> None:
    """B-041, B-083"""
    assert await outbox.get_outbox_counts(site.service) == OutboxCounts(0, 0)

    await insert(site, ENTRY, replace(ENTRY, id="row-3"), FAILED)

    assert await outbox.get_outbox_counts(site.service) == OutboxCounts(pending=2, failed=1)


async def test_a_failed_row_starts_over(site: Site, clock: ManualClock) -> None:
    """B-009, B-043, B-095"""
    await insert(site, FAILED)
    clock.advance(3600)

    answered = await outbox.retry_outbox_entry(site.service, "row-2")

    assert answered == replace(
        FAILED,
        status=OutboxStatus.PENDING,
        attempts=0,
        max_attempts=5,
        next_retry_at=iso_utc(START_MS + 3_600_000),
        last_error=None,
    )
    assert list((await entries(site)).values()) == [answered]


async def test_only_failed_rows_are_retried_or_dismissed(site: Site) -> None:
    """B-042, B-044"""
    await insert(site, ENTRY)

    for verb in (outbox.retry_outbox_entry, outbox.dismiss_outbox_entry):
        assert is_error(await verb(site.service, "row-1"), "conflict")
        assert is_error(await verb(site.service, "no-such-row"), "unknown")

    assert await entries(site) == {"row-1": ENTRY}


async def test_a_dismissed_row_is_gone(site: Site) -> None:
    """B-044, B-114"""
    await insert(site, FAILED)

    assert await outbox.dismiss_outbox_entry(site.service, "row-2") is None

    assert await entries(site) == {}
    assert is_error(await outbox.retry_outbox_entry(site.service, "row-2"), "unknown")
    await site.work_after(24 * 3600)
    assert site.smtp.calls == []


async def test_a_closed_or_damaged_database_is_a_result(tmp_path: Path, clock: ManualClock) -> None:
    """B-032"""
    async with Site(tmp_path, clock).running() as site:
        await insert(site, ENTRY)
    service = site.service

    closed: list[object] = [
        await outbox.insert_outbox_entry(service, ENTRY),
        await outbox.mark_sent(service, "row-1"),
        await outbox.retry_outbox_entry(service, "row-1"),
    ]
    damage(tmp_path)
    damaged: list[object] = [
        await outbox.list_outbox_entries(service),
        await outbox.get_outbox_counts(service),
        await outbox.get_pending_entries(service, START_MS),
        await outbox.dismiss_outbox_entry(service, "row-1"),
    ]

    assert all(isinstance(result, OutboxError) for result in closed)
    assert all(is_error(result, "store") for result in damaged)


@pytest.mark.parametrize("store", ["memory:", "jsonl:///queue.jsonl"])
async def test_a_store_without_views_is_named(
    store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    service = Service(Homing(store), BookingsSettings(), Settings())

    counts = await outbox.get_outbox_counts(service)

    assert isinstance(counts, OutboxError)
    assert "HOMING_STORE names a store whose views cannot be read" in counts.detail


async def test_a_row_that_is_being_sent_is_left_to_the_worker(site: Site) -> None:
    """B-046"""
    await insert(site, ENTRY)
    seen: list[object] = []

    async def look(envelope: object) -> None:
        seen.append(await outbox.mark_sent(site.service, "row-1"))
        seen.append(await outbox.get_outbox_counts(site.service))
        seen.append(await outbox.get_pending_entries(site.service, START_MS + 60_000))
        await site.homing.engine.run_until_idle()

    site.smtp.watch = look
    await site.work_after(30)

    assert is_error(seen[0], "conflict")
    assert seen[1:] == [OutboxCounts(pending=1, failed=0), []]
    assert len(site.smtp.accepted) == 1


async def test_deliveries_of_other_routes_are_not_rows(site: Site) -> None:
    """B-037"""
    ticket = await site.homing.submit(Event("something.else"))

    assert is_error(await outbox.mark_sent(site.service, ticket.delivery_id), "unknown")
    assert is_error(await outbox.retry_outbox_entry(site.service, ticket.delivery_id), "unknown")
    assert (await site.homing.ops.show(ticket.delivery_id)).state == "pending"


async def test_queries_of_due_rows_use_the_partial_index(site: Site) -> None:
    """B-027"""
    with sqlite3.connect(site.path) as connection:
        for query, given in ((outbox.DUE, ("2026",)), (outbox.COUNTS, ())):
            plan = connection.execute(f"explain query plan {query}", given).fetchall()
            assert any("USING INDEX idx_email_outbox_pending" in step[3] for step in plan)
        [(definition,)] = connection.execute(
            "select sql from sqlite_schema where name = 'idx_email_outbox_pending'"
        )
    assert "(next_retry_at) where status = 'pending'" in definition
