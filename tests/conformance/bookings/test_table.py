"""The table `email_outbox`: each row is what the RecordLayout makes of it, and others may write."""

from __future__ import annotations

import random
import re
import sqlite3
import uuid
from contextlib import closing
from pathlib import Path

import pytest
from msgspec.structs import replace

from homing import Homing
from homing.content.addresses import Address
from homing.content.ics import Meeting, invitation
from homing.domain.errors import StoreUnsafe
from homing.domain.message import Email
from homing.ports import Query
from homing.stores.layout import HIDDEN, Record, Stored
from homing.stores.sql.plugin_files import files_of
from homing.testing.clocks import ManualClock
from homing_systems.bookings.plugin import PLUGIN
from homing_systems.bookings.record import LAYOUT
from tests.conformance.bookings.site import Site
from tests.conformance.histories import Action, play
from tests.conformance.world import START_MS

FILE = "20260223100000_add_email_outbox.sql"
NAMES = (
    "",
    "Ann Lee",
    "Lee, Ann",
    'A "B" C',
    "back\\slash",
    '\\"',
    "Ünï Ćode",
    "a<b>@c",
    "\\\\",
    '\\u0041, "',
)
TEXTS = ("", "See you", "ünï\n\n\ttabs 'quotes' \"double\" \\ %s", "x" * 5000)


async def by_layout(homing: Homing) -> dict[str, Record]:
    """What the RecordLayout makes of everything stored."""
    store = homing.store
    records = {}
    for delivery in (await store.page(Query(route="bookings"), None, 1000)).items:
        content = await store.content(delivery.id)
        assert content is not None
        stored = Stored(delivery, content, tuple(await store.attempts(delivery.id)))
        record = LAYOUT.record(stored)
        if record is not None and record["status"] != HIDDEN:
            records[delivery.id] = record
    return records


def some_email(rng: random.Random) -> Email:
    meeting = Meeting(
        uid="booking-7@example.org",
        start_ms=START_MS,
        end_ms=START_MS + 1000,
        stamp_ms=START_MS,
        summary="Call",
        organizer="host@example.org",
        attendees=("ann@example.org",),
    )
    invite = invitation(meeting, rng.choice(("REQUEST", "CANCEL")))
    return Email(
        to=str(Address("Ann.O'Lee@example.org", rng.choice(NAMES))),
        subject=rng.choice(("", "Booked", 'Gebücht: "Call"')),
        text=rng.choice(TEXTS) or "-",
        bcc=rng.choice(((), ("host@example.org",), ("a@example.org", "Boss <b@example.org>"))),
        invitation=rng.choice((None, invite)),
    )


class History:
    """Bookings, sends and repairs at random."""

    def __init__(self, site: Site, rng: random.Random) -> None:
        self.site = site
        self.rng = rng
        self.during_sends: list[bool] = []
        site.smtp.watch = self.compare_during_send

    async def send(self) -> None:
        self.set_answer()
        await self.site.homing.send(some_email(self.rng), route="bookings")

    async def submit(self) -> None:
        await self.site.homing.submit(some_email(self.rng), route="bookings")

    async def work(self) -> None:
        self.set_answer()
        await self.site.work_after(self.rng.choice((0.001, 29.999, 30, 61.5, 600)))

    async def repair(self) -> None:
        desk = self.site.homing.ops
        for row in self.site.rows():
            if row["status"] == "failed":
                verb = self.rng.choice((desk.replay, desk.dismiss))
                await verb(row["id"], actor="host", reason="test")

    def set_answer(self) -> None:
        """Of the next send; without one it is accepted."""
        if self.rng.random() < 0.8:
            self.site.smtp.answer(self.rng.choice(("451", "550", "maybe", "suppress")))

    async def compare_during_send(self, envelope: object) -> None:
        self.during_sends.append(self.shown() == await by_layout(self.site.homing))

    async def compare(self) -> None:
        shown = self.shown()
        assert shown == await by_layout(self.site.homing)
        assert all(uuid.UUID(row_id) for row_id in shown)

    def shown(self) -> dict[str, Record]:
        return {row["id"]: row for row in self.site.rows()}


@pytest.mark.parametrize("seed", range(6))
async def test_the_table_shows_what_the_layout_says(
    tmp_path: Path, clock: ManualClock, seed: int
) -> None:
    """B-003, B-013, B-030"""
    rng = random.Random(seed)
    async with Site(tmp_path, clock).running() as site:
        history = History(site, rng)
        actions: dict[Action, float] = {
            history.send: 4,
            history.submit: 1,
            history.work: 4,
            history.repair: 1,
        }
        await play(rng, actions, history.compare)
    assert history.during_sends
    assert all(history.during_sends)


async def test_the_columns_are_those_of_the_document(tmp_path: Path, clock: ManualClock) -> None:
    """B-012, B-019, B-025"""
    async with Site(tmp_path, clock, "451").running() as site:
        await site.book()
        await site.tried(1)

        row = site.row()
        assert tuple(row) == LAYOUT.fields == (
            "id", "to_address", "to_name", "subject", "body", "bcc", "ics_content", "ics_method",
            "status", "attempts", "max_attempts", "next_retry_at", "last_error", "created_at",
        )  # fmt: skip
        assert row["bcc"] is None
        assert isinstance(row["ics_content"], str)
        assert isinstance(row["last_error"], str)


async def only_row(tmp_path: Path, clock: ManualClock) -> dict[str, object]:
    async with Site(tmp_path, clock, "451").running() as site:
        await site.homing.send(Email(to="ann@example.org", text="x"), route="bookings")
        return site.row()


async def test_who_the_mail_is_for(tmp_path: Path, clock: ManualClock) -> None:
    """B-013, B-014, B-015"""
    row = await only_row(tmp_path, clock)
    assert str(uuid.UUID(str(row["id"]))) == row["id"]
    assert (row["to_address"], row["to_name"]) == ("ann@example.org", "")


async def test_what_the_mail_says_is_never_null(tmp_path: Path, clock: ManualClock) -> None:
    """B-016, B-017, B-021"""
    row = await only_row(tmp_path, clock)
    assert (row["subject"], row["body"], row["status"]) == ("", "x", "pending")


async def test_counters_are_numbers_with_their_defaults(tmp_path: Path, clock: ManualClock) -> None:
    """B-022, B-023"""
    row = await only_row(tmp_path, clock)
    assert (row["attempts"], row["max_attempts"]) == (0, 5)


async def test_times_are_text_in_the_order_of_time(tmp_path: Path, clock: ManualClock) -> None:
    """B-024, B-026"""
    async with Site(tmp_path, clock, *["451"] * 30).running() as site:
        for wait_s in (0.001, 0.999, 59, 3600, 20 * 24 * 3600):
            clock.advance(wait_s)
            await site.homing.send(Email(to="ann@example.org", text="x"), route="bookings")
        rows = site.sql(
            "select e.next_retry_at, e.created_at from email_outbox e"
            " join homing_deliveries d using (id) order by d.due_at_ms"
        )

    assert len(rows) == 5
    for times in zip(*rows, strict=True):
        assert list(times) == sorted(times)
        assert all(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", time) for time in times)


async def test_the_migration_is_applied_once_and_guarded_by_its_checksum(
    tmp_path: Path, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B-012, B-028, B-112"""
    [file] = files_of(PLUGIN.name, PLUGIN.sql_files["sqlite"])
    assert file.name == FILE

    async def opened() -> list[tuple[object, ...]]:
        async with Site(tmp_path, clock).running() as site:
            return site.sql("select type, name, sql from sqlite_schema order by name")

    assert await opened() == await opened()
    edited = replace(file, script=file.script + "\n")
    monkeypatch.setattr(
        "homing.stores.sql.sqlite.store.files_of", lambda plugin, package: (edited,)
    )
    with pytest.raises(StoreUnsafe, match=FILE):
        await opened()


async def test_an_existing_database_is_migrated(tmp_path: Path, clock: ManualClock) -> None:
    """B-012"""
    path = tmp_path / "bookings.db"
    with sqlite3.connect(path) as connection:
        connection.execute("create table guests (name text)")
        connection.execute("insert into guests values ('Ann')")
    async with Homing(path, worker=False):
        """Opened once without the files of the plugin."""

    async with Site(tmp_path, clock).running() as site:
        assert site.rows() == []
        assert site.sql("select name from guests") == [("Ann",)]


INSERT = (
    "insert into email_outbox (id, to_address, to_name, subject, body, attempts, last_error,"
    " next_retry_at, created_at) values (?, 'ann@example.org', 'Ann', 'Booked', 'See you', 2,"
    " 'refused', '2026-02-23T10:00:00.000Z', '2026-02-23T09:00:00.000Z')"
)


def write(site: Site, statement: str, *given: object) -> None:
    with closing(sqlite3.connect(site.path, timeout=20)) as connection, connection:
        connection.execute("pragma foreign_keys = on")
        connection.execute(statement, given)


async def test_it_is_a_table_with_a_partial_index(tmp_path: Path, clock: ManualClock) -> None:
    """B-012, B-021, B-027"""
    async with Site(tmp_path, clock).running() as site:
        columns = site.sql("select name, \"notnull\", pk from pragma_table_info('email_outbox')")
        assert tuple(column[0] for column in columns) == LAYOUT.fields
        assert site.sql("select type from sqlite_schema where name = 'email_outbox'") == [
            ("table",)
        ]
        assert {column[0] for column in columns if not column[1] and not column[2]} == {
            *("bcc", "ics_content", "ics_method", "last_error")
        }


async def test_a_row_of_another_program_is_sent_with_the_attempts_it_had(
    tmp_path: Path, clock: ManualClock
) -> None:
    """B-013, B-022, B-025"""
    async with Site(tmp_path, clock, "451").running() as site:
        write(site, "create table notes (id text references email_outbox (id))")
        write(site, INSERT, "row-1")
        write(site, f"{INSERT} on conflict (id) do nothing", "row-1")
        write(site, "insert into notes values ('row-1')")
        await site.homing.engine.take_lines()
        row = site.row()
        assert (row["attempts"], row["last_error"], row["status"]) == (2, "refused", "pending")
        await site.work_after(0)
        assert (site.row()["attempts"], site.row()["id"]) == (3, "row-1")
        write(site, "delete from notes")
        await site.work_after(600)
        assert site.rows() == []
        assert marks(site) == 0


@pytest.mark.parametrize(
    ("column", "value", "problem"),
    [
        ("status", "sent", "neither pending nor failed"),
        ("attempts", "many", "is not a record"),
        ("next_retry_at", "soon", "is not an ISO 8601 time"),
    ],
)
async def test_a_malformed_row_stays_and_is_recorded(
    tmp_path: Path, clock: ManualClock, column: str, value: str, problem: str
) -> None:
    """B-021"""
    async with Site(tmp_path, clock).running() as site:
        write(site, INSERT, "row-1")
        write(site, f"update email_outbox set {column} = ?", value)
        await site.homing.engine.take_lines()
        assert site.row()[column] == value
        [fact] = await site.homing.store.facts("refused_row")
        assert problem in str(fact.value)
        assert (marks(site), await site.homing.store.get("row-1")) == (0, None)


async def test_what_others_do_to_a_failed_row_is_done_to_its_mail(
    tmp_path: Path, clock: ManualClock
) -> None:
    """B-021, B-022"""
    async with Site(tmp_path, clock).running() as site:
        for name in ("row-1", "row-2", "row-3"):
            write(site, INSERT, name)
        write(site, "update email_outbox set status = 'failed' where id <> 'row-3'")
        await site.homing.engine.take_lines()
        write(site, "update email_outbox set status = 'pending' where id = 'row-1'")
        write(site, "delete from email_outbox where id <> 'row-1'")
        await site.homing.engine.take_lines()

        rows = {row["id"]: row for row in site.rows()}
        # Only a failed one is dismissed; the other is written again.
        assert (set(rows), rows["row-1"]["attempts"]) == ({"row-1", "row-3"}, 0)
        dismissed = await site.homing.store.get("row-2")
        assert dismissed is not None
        assert dismissed.state == "dismissed"
        [refused] = await site.homing.store.facts("refused_row")
        assert (refused.key, marks(site)) == ("email_outbox/row-3", 0)


async def test_a_row_with_a_foreign_change_is_not_written_before_it_is_adopted(
    tmp_path: Path, clock: ManualClock
) -> None:
    async with Site(tmp_path, clock).running() as site:
        write(site, INSERT, "row-1")
        write(site, "update email_outbox set status = 'failed'")
        await site.homing.engine.take_lines()
        write(site, "update email_outbox set body = 'changed'")
        await site.homing.ops.replay("row-1", actor="host", reason="test")
        assert (site.row()["body"], site.row()["status"]) == ("changed", "failed")
        await site.homing.engine.take_lines()
        assert (site.row()["body"], site.row()["status"]) == ("See you", "pending")


async def test_a_table_that_was_there_is_adopted(tmp_path: Path, clock: ManualClock) -> None:
    """B-012, B-025"""
    [file] = files_of(PLUGIN.name, PLUGIN.sql_files["sqlite"])
    table = file.script[file.script.index("create table") : file.script.index("create index")]
    with closing(sqlite3.connect(tmp_path / "bookings.db")) as connection, connection:
        connection.execute(table)
        connection.execute("alter table email_outbox add column tenant text default 'acme'")
        connection.execute("create view waiting as select id from email_outbox")
        connection.execute(INSERT, ("row-1",))
    async with Site(tmp_path, clock, "451").running() as site:
        await site.homing.engine.take_lines()
        await site.work_after(0)
        row = site.row()
        assert (row["attempts"], row["tenant"]) == (3, "acme")
        assert site.sql("select id from waiting") == [("row-1",)]


def marks(site: Site) -> int:
    [(number,)] = site.sql("select count(*) from homing_facts where kind = 'foreign_row'")
    return int(str(number))


async def test_the_outbox_depends_on_mail_and_not_the_reverse() -> None:
    """B-031"""
    folder = Path(str(PLUGIN.routes.__code__.co_filename)).parent
    for name in ("payloads", "route", "record"):
        assert "bookings.outbox" not in (folder / f"{name}.py").read_text()
    assert "bookings.payloads" in (folder / "outbox.py").read_text()
