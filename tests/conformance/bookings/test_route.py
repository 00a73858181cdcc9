"""Booking mails (003): inline first, five worker attempts, and a row only while it is open."""

from __future__ import annotations

import msgspec
import pytest

from homing.content.ics import Meeting, invitation
from homing.domain.delivery import Content
from homing.domain.errors import InvalidRequest, NotAllowed, NotFound, TerminalError
from homing.domain.failure import Failure, Refusal
from homing.domain.message import Email
from homing.engine.intake.admission import Request
from homing.ports import Envelope
from homing.stores.layout import Record, Stored
from homing.testing.clocks import ManualClock
from homing_systems.bookings.record import LAYOUT
from homing_systems.bookings.route import MAX_ATTEMPTS, PLAN, bookings_route
from tests.conformance.world import START_MS, Answer, ScriptedProvider, World

DAY_S = 24 * 3600.0
ROW: Record = {
    "id": "row-1",
    "to_address": "ann@example.org",
    "to_name": "Ann Lee",
    "subject": "Booked",
    "body": "See you Monday",
    "bcc": None,
    "ics_content": None,
    "ics_method": None,
    "status": "pending",
    "attempts": 0,
    "max_attempts": 5,
    "next_retry_at": "2026-02-23T10:00:30.000Z",
    "last_error": None,
    "created_at": "2026-02-23T10:00:00.000Z",
}
PLAIN = Email(to="Ann Lee <ann@example.org>", subject="Booked", text="See you Monday")


class Bookings(World):
    def __init__(self, clock: ManualClock, *script: Answer) -> None:
        self.smtp = ScriptedProvider(clock, script)
        super().__init__(bookings_route(self.smtp, sender="Host <host@example.org>"), clock)

    async def book(self, email: Email = PLAIN) -> str:
        return (await self.send(Request(message=email))).delivery_id

    async def row(self, delivery_id: str) -> Record | None:
        """What is seen in `email_outbox`."""
        if await self.store.get(delivery_id) is None:
            return None
        return LAYOUT.record(await self.stored(delivery_id))

    async def column(self, delivery_id: str, name: str) -> object:
        row = await self.row(delivery_id)
        assert row is not None
        return row[name]


async def test_a_healthy_send_leaves_no_row_at_any_time(clock: ManualClock) -> None:
    """B-002, B-104, B-122"""
    world = Bookings(clock)
    rows: list[Record | None] = []

    async def watch(envelope: Envelope) -> None:
        rows.append(await world.row(envelope.delivery_id))

    world.smtp.watch = watch
    delivery_id = await world.book()

    assert rows == [None]
    assert await world.row(delivery_id) is None
    assert await world.store.get(delivery_id) is None
    [envelope] = world.smtp.accepted
    assert envelope.sender == "host@example.org"
    assert b"\r\nTo: Ann Lee <ann@example.org>\r\nSubject: Booked\r\n" in envelope.data


async def test_an_inline_failure_leaves_a_pending_row_due_in_thirty_seconds(
    clock: ManualClock,
) -> None:
    """B-007, B-034, B-115"""
    world = Bookings(clock, "451")
    meeting = Meeting(
        uid="booking-7@example.org",
        start_ms=START_MS + 3_600_000,
        end_ms=START_MS + 5_400_000,
        stamp_ms=START_MS,
        summary="Call",
        organizer="host@example.org",
        attendees=("ann@example.org",),
    )
    invite = invitation(meeting, "CANCEL")
    email = Email(
        to="Ann Lee <ann@example.org>",
        subject="Booked",
        text="See you Monday",
        bcc="host@example.org",
        invitation=invite,
    )

    delivery_id = await world.book(email)

    assert await world.row(delivery_id) == {
        "id": delivery_id,
        "to_address": "ann@example.org",
        "to_name": "Ann Lee",
        "subject": "Booked",
        "body": "See you Monday",
        "bcc": "host@example.org",
        "ics_content": invite.ics,
        "ics_method": "CANCEL",
        "status": "pending",
        "attempts": 0,
        "max_attempts": 5,
        "next_retry_at": "2026-02-23T10:00:30.000Z",
        "last_error": "deferred",
        "created_at": "2026-02-23T10:00:00.000Z",
    }


async def test_worker_attempts_come_after_30_60_120_240_and_480_seconds(
    clock: ManualClock,
) -> None:
    """B-106, B-116, X-12"""
    world = Bookings(clock, *["451"] * 9)

    delivery_id = await world.book()
    await world.work_for(DAY_S)

    assert world.smtp.called_at_s == [0.0, 30.0, 90.0, 210.0, 450.0, 930.0]
    assert await world.column(delivery_id, "status") == "failed"
    assert await world.column(delivery_id, "attempts") == 5


def test_the_delay_doubles_with_the_attempts_made() -> None:
    """B-033"""
    retry = PLAN.first_stage.retry
    failure = Failure("deferred")

    delays_ms = [retry.delay_ms(made + 1, failure, roll=0.9) for made in range(5)]

    assert delays_ms == [30_000, 60_000, 120_000, 240_000, 480_000]


async def test_the_row_follows_each_failure(clock: ManualClock) -> None:
    """B-038, B-039, B-050"""
    world = Bookings(clock, "451", *["452"] * 5)
    delivery_id = await world.book()
    rows = []
    for wait_s in (30, 60, 120, 240, 480):
        await world.work_after(wait_s)
        row = await world.row(delivery_id)
        assert row is not None
        rows.append((row["status"], row["attempts"], row["next_retry_at"][11:19]))

    assert rows == [
        ("pending", 1, "10:01:30"),
        ("pending", 2, "10:03:30"),
        ("pending", 3, "10:07:30"),
        ("pending", 4, "10:15:30"),
        ("failed", 5, "10:15:30"),
    ]


@pytest.mark.parametrize(
    "answer",
    [
        "421",
        "550",
        "535",
        "554",
        "suppress",
        Failure(
            "recipient_refused", "reject", refused={"ann@example.org": Refusal(permanent=True)}
        ),
        TerminalError("no such account"),
        ValueError("surprise"),
    ],
)
async def test_every_failure_is_tried_again(clock: ManualClock, answer: Answer) -> None:
    """B-051, B-064, X-20"""
    world = Bookings(clock, *[answer] * 5)

    delivery_id = await world.book()
    await world.work_for(DAY_S)

    assert world.smtp.called_at_s == [0.0, 30.0, 90.0, 210.0, 450.0, 930.0]
    assert [envelope.recipients for envelope in world.smtp.calls] == [("ann@example.org",)] * 6
    assert await world.row(delivery_id) is None


async def test_a_delivered_row_is_removed(clock: ManualClock) -> None:
    """B-037, B-107"""
    world = Bookings(clock, "451", "451")

    delivery_id = await world.book()
    await world.work_for(90)

    assert len(world.smtp.accepted) == 1
    assert await world.store.get(delivery_id) is None


async def test_one_failing_row_does_not_stop_the_others(clock: ManualClock) -> None:
    """B-052"""
    world = Bookings(clock, "451", "451", RuntimeError("first row"))

    first = await world.book()
    clock.advance(0.001)
    second = await world.book()
    await world.work_after(30)

    assert await world.column(first, "attempts") == 1
    assert await world.row(second) is None


async def test_a_manual_retry_starts_over(clock: ManualClock) -> None:
    """B-009, B-043, X-81"""
    world = Bookings(clock, *["451"] * 7)
    delivery_id = await world.book()
    await world.work_for(DAY_S)

    await world.ops.replay(delivery_id, actor="host", reason="server is back")

    row = await world.row(delivery_id)
    assert row is not None
    assert [row[name] for name in ("status", "attempts", "max_attempts", "last_error")] == [
        "pending",
        0,
        5,
        None,
    ]
    assert row["next_retry_at"] == "2026-02-24T10:00:00.000Z"
    await world.work_for(60)
    # Due at once, and after that failure by the schedule of a first worker attempt.
    assert world.smtp.called_at_s[6:] == [DAY_S, DAY_S + 60]


async def test_a_changed_budget_holds_until_a_manual_retry(clock: ManualClock) -> None:
    """B-043"""
    world = Bookings(clock, *["451"] * 20)
    await world.store.add([world.adopted(LAYOUT.parse({**ROW, "max_attempts": 7}))])

    await world.work_for(DAY_S)
    assert await world.column("row-1", "attempts") == 7
    assert await world.column("row-1", "max_attempts") == 7
    await world.ops.replay("row-1", actor="host", reason="again")

    assert await world.column("row-1", "max_attempts") == MAX_ATTEMPTS


async def test_dismiss_removes_a_failed_row(clock: ManualClock) -> None:
    """B-044, B-114"""
    world = Bookings(clock, *["451"] * 6)
    delivery_id = await world.book()
    await world.work_for(DAY_S)

    await world.ops.dismiss(delivery_id, actor="host", reason="wrong address")
    assert await world.row(delivery_id) is None
    await world.work_after(1)
    await world.engine.housekeeping.purge()

    assert await world.store.get(delivery_id) is None
    assert len(world.smtp.calls) == 6


async def test_only_failed_rows_are_retried_or_dismissed(clock: ManualClock) -> None:
    """B-042, B-044"""
    world = Bookings(clock, "451")
    pending = await world.book()
    before = await world.row(pending)

    for verb in (world.ops.replay, world.ops.dismiss):
        with pytest.raises(NotAllowed, match="it is pending"):
            await verb(pending, actor="host", reason="now")
        with pytest.raises(NotFound):
            await verb("no-such-row", actor="host", reason="now")

    assert await world.row(pending) == before


async def test_other_verbs_are_not_offered(clock: ManualClock) -> None:
    """X-63"""
    world = Bookings(clock, *["451"] * 6)
    failed = await world.book()
    await world.work_for(DAY_S)

    for verb in ("restart", "resend", "restore", "cancel"):
        with pytest.raises(NotAllowed, match=f"does not offer {verb}"):
            await getattr(world.ops, verb)(failed, actor="host", reason="now")


async def test_only_two_words_are_ever_seen(clock: ManualClock) -> None:
    """B-029, B-123, X-52"""
    world = Bookings(clock, "451", "451")
    waiting = await world.book()
    await world.work_for(29)
    running = await world.book()
    for row_id in ("failed", "dismissed"):
        failed = LAYOUT.parse({**ROW, "id": row_id, "status": "failed"})
        await world.store.add([world.adopted(failed)])
    await world.ops.dismiss("dismissed", actor="host", reason="unknown guest")
    inline: list[set[str]] = []

    async def watch(envelope: Envelope) -> None:
        await world.check_filters()
        inline.append(await world.filtered("pending") | await world.filtered("failed"))

    world.smtp.watch = watch
    await world.book()
    clock.advance(30)
    await world.die_working()
    await world.check_filters()

    assert LAYOUT.words == ("pending", "failed")
    assert inline == [{waiting, running, "failed"}]
    assert (await world.get(running)).state == "in_flight"
    assert await world.filtered("pending") == {waiting, running}
    assert await world.filtered("failed") == {"failed"}


CANCELLED = (
    "BEGIN:VCALENDAR\r\nMETHOD:CANCEL\r\nBEGIN:VEVENT\r\nUID:booking-1\r\n"
    "DTSTAMP:20260223T100000Z\r\nDTSTART:20260224T100000Z\r\n"
    "END:VEVENT\r\nEND:VCALENDAR\r\n"
)


@pytest.mark.parametrize("word", ["pending", "failed"])
def test_a_row_is_read_back_as_it_was_written(clock: ManualClock, word: str) -> None:
    """B-030, B-029"""
    row = {
        **ROW,
        "status": word,
        "attempts": 3,
        "last_error": "451 later",
        "bcc": "host@example.org, boss@example.org",
        "ics_content": CANCELLED,
        "ics_method": "CANCEL",
    }
    new = Bookings(clock).adopted(LAYOUT.parse(row))

    assert LAYOUT.record(Stored(new.delivery, Content(new.payload))) == row


def test_a_row_with_another_status_is_refused() -> None:
    """B-029, B-085"""
    with pytest.raises(InvalidRequest, match="sent"):
        LAYOUT.parse({**ROW, "status": "sent"})


async def test_a_crash_in_the_inline_call_loses_nothing(clock: ManualClock) -> None:
    """B-001, B-113"""
    world = Bookings(clock)
    new = world.engine.admission.prepare(world.route, Request(message=PLAIN))
    dead = msgspec.structs.replace(
        new.delivery,
        state="in_flight",
        holder="the one that died",
        unsettled_claims=1,
        claimed_at_ms=START_MS,
        phase="inline",
        due_at_ms=START_MS + 60_000,
    )
    await world.store.add([msgspec.structs.replace(new, delivery=dead)])
    assert await world.row(dead.id) is None

    await world.work_for(60)

    assert world.smtp.called_at_s == [60.0]


async def test_what_may_have_been_sent_is_sent_again(clock: ManualClock) -> None:
    """X-42"""
    world = Bookings(clock, "maybe")

    delivery_id = await world.book()
    assert (await world.get(delivery_id)).maybe_sent
    await world.work_for(30)

    first, second = world.smtp.accepted
    assert (first.token, first.data) == (second.token, second.data)
