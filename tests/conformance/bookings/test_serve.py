"""`homing bookings serve` as a process, with a real SMTP server that is up, down or hangs."""

from __future__ import annotations

import json
import signal
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from email import message_from_bytes, policy
from pathlib import Path
from typing import Any

import httpx2
import pytest
from aiosmtpd.controller import Controller
from aiosmtpd.handlers import Message

from tests.conformance.bookings.pages import START_S
from tests.conformance.bookings.site import ANN
from tests.unit.cli.programs import Served, free_port, run, started, until

PASSWORD = "a host's password"
# The first retry comes after half a second instead of thirty.
QUICK = "60"


class Mailbox(Message):
    """Keeps what it was sent."""

    def __init__(self) -> None:
        super().__init__()
        self.mails: list[Any] = []

    def handle_message(self, message: Any) -> None:
        self.mails.append(message_from_bytes(message.as_bytes(), policy=policy.default))


@contextmanager
def smtp_server(port: int) -> Iterator[Mailbox]:
    mailbox = Mailbox()
    controller = Controller(mailbox, hostname="127.0.0.1", port=port, ready_timeout=30)
    controller.start()
    try:
        yield mailbox
    finally:
        controller.stop()


@contextmanager
def bookings(folder: Path, smtp_port: int | None, **settings: str) -> Iterator[Served]:
    """The application, once it answers."""
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    if smtp_port is not None:
        settings["HOMING_PROVIDER"] = f"smtp://127.0.0.1:{smtp_port}?tls=none"
        settings["HOMING_SENDER"] = "Host <host@example.org>"
    settings |= {"HOMING_STORE": "sqlite:///b.db", "BOOKINGS_ADMIN_PASSWORD": PASSWORD}
    command = ["-m", "homing", "bookings", "serve", "--port", str(port)]

    def answers() -> bool:
        assert program.process.poll() is None, program.said()
        try:
            return httpx2.get(f"{url}/api/admin/dashboard").status_code == 401
        except httpx2.TransportError:
            return False

    with started(folder, command, **settings) as program:
        until(answers, within_s=START_S, what="bookings serve")
        yield Served(program.process, program.log, url)


def book(served: Served, days_ahead: int = 1) -> str:
    start = datetime.now(UTC) + timedelta(days=days_ahead)
    answer = httpx2.post(f"{served.url}/api/book", json={**ANN, "start": start.isoformat()})
    assert answer.status_code == 200, answer.text
    return str(answer.json()["id"])


def rows(folder: Path) -> list[dict[str, Any]]:
    """As any SQLite client reads them while the service runs."""
    with closing(sqlite3.connect(f"file:{folder}/b.db?mode=ro", uri=True, timeout=20)) as database:
        database.row_factory = sqlite3.Row
        return [dict(row) for row in database.execute("select * from email_outbox")]


def test_a_server_that_comes_back_gets_the_waiting_mails(tmp_path: Path) -> None:
    """B-073, B-105, B-107"""
    smtp_port = free_port()
    with bookings(tmp_path, smtp_port, HOMING_TIME_SCALE=QUICK) as served:
        booking_id = book(served)
        [row] = until(lambda: rows(tmp_path), what="the row")
        assert (row["status"], row["to_address"]) == ("pending", "ann@example.org")
        with smtp_server(smtp_port) as mailbox:
            until(lambda: mailbox.mails, what="the mail")
            until(lambda: not rows(tmp_path), what="the end of the row")
    [mail] = mailbox.mails
    [calendar] = [part for part in mail.walk() if part.get_content_type() == "text/calendar"]
    assert mail["To"] == "Ann Lee <ann@example.org>"
    assert calendar.get_param("method") == "REQUEST"
    assert booking_id in calendar.get_content()


def test_a_refused_connection_counts_and_ends_in_a_failed_row(tmp_path: Path) -> None:
    """B-039, B-106"""
    with bookings(tmp_path, free_port(), HOMING_TIME_SCALE="1000") as served:
        book(served)
        until(lambda: [r for r in rows(tmp_path) if r["status"] == "failed"], what="failure")
    [row] = rows(tmp_path)
    assert (row["attempts"], row["max_attempts"]) == (5, 5)


def test_a_kill_between_booking_and_mail_loses_nothing(tmp_path: Path) -> None:
    """B-001, B-113"""
    smtp_port = free_port()
    with bookings(tmp_path, smtp_port) as served:
        ids = [book(served, days_ahead) for days_ahead in range(1, 11)]
        served.stop(signal.SIGKILL)
    with (
        smtp_server(smtp_port) as mailbox,
        bookings(tmp_path, smtp_port, HOMING_TIME_SCALE="1000"),
    ):
        until(lambda: len(mailbox.mails) >= len(ids), what="all mails")
        until(lambda: not rows(tmp_path), what="the end of the rows")
    bodies = "".join(str(mail) for mail in mailbox.mails)
    assert len(mailbox.mails) == len(ids)
    assert all(booking_id in bodies for booking_id in ids)


def test_without_a_provider_mail_is_off(tmp_path: Path) -> None:
    """B-060, B-074"""
    with bookings(tmp_path, None, HOMING_LOG__LEVEL="debug", HOMING_LOG__FORMAT="json") as served:
        book(served)
        assert served.stop() == 0
    said = served.said()
    lines = [json.loads(line) for line in said.splitlines() if line.startswith("{")]
    off = [line for line in lines if "mail_off" in line["event"]]
    assert "mail is off" in said
    assert [line["level"] for line in off] == ["debug", "debug"]
    assert {line["SourceContext"] for line in off} == {"Michael.EmailOutbox"}
    assert rows(tmp_path) == []


def test_a_stop_ends_worker_and_server_in_order(tmp_path: Path) -> None:
    """B-045, B-054, B-075"""
    with bookings(tmp_path, free_port()) as served:
        book(served)
        until(lambda: rows(tmp_path), what="the row")
        assert served.stop() == 0
    assert "Traceback" not in served.said()
    assert len(rows(tmp_path)) == 1


def test_a_store_that_is_no_file_is_refused(tmp_path: Path) -> None:
    """B-012"""
    ended = run(tmp_path, "bookings", "serve", code=1, HOMING_STORE="memory:")

    assert "store: takes no SQL files" in ended.stderr or "must be a SQLite file" in ended.stderr


def test_the_store_can_be_named_on_the_command_line(tmp_path: Path) -> None:
    """B-012"""
    words = ("bookings", "serve", "--store", "memory:")
    ended = run(tmp_path, *words, code=1, HOMING_STORE="sqlite:///b.db")

    assert "store: takes no SQL files" in ended.stderr or "must be a SQLite file" in ended.stderr


def test_a_wrong_address_for_copies_stops_the_start(tmp_path: Path) -> None:
    """B-018"""
    ended = run(tmp_path, "bookings", "serve", code=2, BOOKINGS_BCC="boss@example.org, nobody")

    assert "BOOKINGS_BCC: is not a mail address" in ended.stderr


@pytest.mark.parametrize("command", ["list", "worker"])
def test_the_standard_commands_are_there_too(tmp_path: Path, command: str) -> None:
    """B-120"""
    ended = run(tmp_path, "bookings", command, "--help")

    assert "--store" in ended.stdout
