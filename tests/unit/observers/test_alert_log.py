"""Alerts: a line in the file; if that fails, in the system's journal; never nowhere."""

import logging
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from homing.observers import alert_log
from homing.observers.alert_log import AlertLog
from homing.ports import Alert, Notice
from tests.unit.observers.events import CANARY, DELIVERY_ID, T0_MS, dead_letter

PAUSED = Alert("route_paused", "mail", "route mail is paused: bad credentials", T0_MS)


@pytest.fixture
def journal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], str]:
    """What a `logger` on the PATH was given."""
    return shim(tmp_path, monkeypatch, 'printf "%s\\n" "$*" >> "$JOURNAL"').read_text


def shim(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> Path:
    folder = tmp_path / "bin"
    folder.mkdir()
    program = folder / "logger"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    journal = tmp_path / "journal"
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("JOURNAL", str(journal))
    return journal


async def test_a_dead_letter_is_one_line_without_anything_of_the_customer(tmp_path: Path) -> None:
    path = tmp_path / "alerts"

    given = await AlertLog(path).notify("alert", [Notice(dead_letter())])

    assert given == [True]
    assert path.read_text() == (
        f"2027-01-15T08:00:00+00:00 [ALERT][homing] DEAD LETTER: delivery={DELIVERY_ID} cycle=1"
        " route=mail because=rejected attempts=1 last_error=recipient_refused code=550\n"
    )
    assert CANARY not in path.read_text()


async def test_a_notice_that_is_asked_for_again_is_not_written_again(tmp_path: Path) -> None:
    path = tmp_path / "alerts"
    log = AlertLog(path)

    for _ in range(2):
        assert await log.notify("alert", [Notice(dead_letter())]) == [True]
        assert await log.sound(PAUSED)
    assert await log.notify("alert", [Notice(dead_letter(cycle=2))]) == [True]

    kinds = [line.split("] ")[1].split(":")[0] for line in path.read_text().splitlines()]
    assert kinds == ["DEAD LETTER", "ROUTE_PAUSED", "DEAD LETTER"]


async def test_an_alert_of_a_hostile_text_stays_one_line_without_addresses(
    tmp_path: Path,
) -> None:
    path = tmp_path / "alerts"
    text = "route mail is paused: \x1b[2Jno\nFAKE LINE for ann@example.org"

    await AlertLog(path).sound(Alert("route_paused", "mail", text, T0_MS))

    assert path.read_text().count("\n") == 1
    assert "\x1b" not in path.read_text()
    assert "ann@example.org" not in path.read_text()


async def test_without_the_file_the_journal_gets_it(
    tmp_path: Path, journal: Callable[[], str]
) -> None:
    given = await AlertLog(tmp_path / "none" / "alerts").notify("alert", [Notice(dead_letter())])

    assert given == [True]
    assert journal().startswith("-t homing -p user.alert -- 2027-01-15T08:00:00")
    assert f"delivery={DELIVERY_ID}" in journal()


async def test_a_full_disk_goes_to_the_journal_too(journal: Callable[[], str]) -> None:
    assert await AlertLog(Path("/dev/full")).sound(PAUSED)
    assert "ROUTE_PAUSED" in journal()


@pytest.mark.parametrize("script", ["exit 1", "sleep 60"])
async def test_when_the_journal_fails_too_it_is_asked_for_again_and_is_loud_meanwhile(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    script: str,
) -> None:
    shim(tmp_path, monkeypatch, f"exec {script}" if script.startswith("sleep") else script)
    monkeypatch.setattr(alert_log, "LOGGER_TIMEOUT_S", 0.1)

    given = await AlertLog(tmp_path / "none" / "alerts").notify("alert", [Notice(dead_letter())])

    assert given == [False]
    assert f"delivery={DELIVERY_ID}" in caplog.messages[-1]


async def test_without_a_logger_it_is_asked_for_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))

    assert not await AlertLog(tmp_path / "none" / "alerts").sound(PAUSED)


async def test_where_no_file_is_set_the_log_is_the_alert_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    alerts = AlertLog()

    assert await alerts.notify("alert", [Notice(dead_letter())]) == [True]

    [record] = caplog.records
    assert record.levelno == logging.ERROR
    assert "DEAD LETTER" in record.getMessage()
    assert not alerts.has_file
