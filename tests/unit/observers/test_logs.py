"""Logs are structured, on stderr, and hold nothing that a customer wrote (T11, T20, I23)."""

import asyncio
import io
import json
import logging
import subprocess
import sys
from collections.abc import Iterator

import pytest

from homing.domain.errors import StoreUnavailable
from homing.observers.logs import LogObserver, configure, place_of
from tests.unit.observers.events import (
    ADDRESS,
    CANARY,
    DELIVERY_ID,
    accepted,
    delivery,
    refused,
    succeeded,
)

log = logging.getLogger("somebody.else")


@pytest.fixture(autouse=True)
def _logs_as_they_were() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:], root.level = handlers, level


def lines(capsys: pytest.CaptureFixture[str]) -> list[dict[str, object]]:
    captured = capsys.readouterr()
    assert captured.out == ""
    return [json.loads(line) for line in captured.err.splitlines()]


def test_each_end_is_one_json_line_of_names_and_numbers(
    capsys: pytest.CaptureFixture[str],
) -> None:
    LogObserver("info", "json").observe([accepted(), succeeded(), refused()])

    delivered, failed = lines(capsys)
    assert delivered == {
        "timestamp": "2027-01-15T08:00:00.250Z",
        "logger": "homing.deliveries",
        "level": "info",
        "event": "delivered",
        "delivery": DELIVERY_ID,
        "route": "mail",
        "state": "delivered",
        "attempts": 1,
    }
    assert (failed["level"], failed["because"]) == ("error", "rejected")
    assert (failed["error_class"], failed["code"]) == ("recipient_refused", "550")


@pytest.mark.parametrize("style", ["json", "text"])
def test_nothing_of_the_customer_is_in_any_line(
    capsys: pytest.CaptureFixture[str], style: str
) -> None:
    LogObserver("debug", style).observe([accepted(), succeeded(), refused()])

    text = capsys.readouterr().err
    assert text.count(DELIVERY_ID) == 3
    assert CANARY not in text


@pytest.mark.parametrize(
    ("level", "number"), [("debug", 3), ("info", 2), ("warning", 1), ("error", 1)]
)
def test_the_level_decides_what_is_told(
    capsys: pytest.CaptureFixture[str], level: str, number: int
) -> None:
    LogObserver(level, "json").observe([accepted(), succeeded(), refused()])

    assert len(lines(capsys)) == number


def test_a_hostile_id_cannot_forge_a_line_or_a_colour(capsys: pytest.CaptureFixture[str]) -> None:
    hostile = delivery(id="1\n2026 [error] forged\x1b[31m", state="delivered")
    event = succeeded()
    forged = type(event)(event.name, hostile, None, (), event.at_ms)

    LogObserver("info", "text").observe([forged])

    text = capsys.readouterr().err
    assert text.count("\n") == 1
    assert "\x1b" not in text


def test_text_is_the_same_in_one_line_and_says_clearly_what_belongs_together(
    capsys: pytest.CaptureFixture[str],
) -> None:
    event = succeeded()
    odd = type(event)(event.name, delivery(id="1 state=failed", state="delivered"), None, (), 0)

    LogObserver("info", "text").observe([event, odd])

    plain, quoted = capsys.readouterr().err.splitlines()
    assert plain == (
        "2027-01-15T08:00:00.250Z [info     ] delivered                      [homing.deliveries]"
        f" attempts=1 delivery={DELIVERY_ID} route=mail state=delivered"
    )
    assert quoted.startswith("1970-01-01T00:00:00.000Z ")
    assert quoted.endswith(" delivery='1 state=failed' route=mail state=delivered")


def test_what_is_told_together_is_written_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """A line costs no system call of its own, and what is too quiet costs none at all."""

    class Counting(io.StringIO):
        writes = 0

        def write(self, text: str, /) -> int:
            self.writes += 1
            return super().write(text)

    stream = Counting()
    monkeypatch.setattr(sys, "stderr", stream)
    observer = LogObserver("info", "json")

    observer.observe([succeeded(), accepted(), refused()])
    observer.observe([accepted()])

    assert stream.writes == 1
    assert stream.getvalue().count("\n") == 2


def test_texts_of_others_are_redacted_and_kept_on_one_line(
    capsys: pytest.CaptureFixture[str],
) -> None:
    configure("info", "json")

    log.warning("for %s with password=%s\n\x1b[2Jforged", ADDRESS, CANARY)

    [line] = lines(capsys)
    assert line["event"] == "for [address] with password=[redacted]\\x0a\\x1b[2Jforged"


def test_of_a_foreign_exception_only_kind_and_place_are_logged(
    capsys: pytest.CaptureFixture[str],
) -> None:
    configure("info", "json")

    def crash() -> None:
        try:
            int(f"{CANARY} secret words")
        except ValueError as cause:
            raise RuntimeError(f"{CANARY} again") from cause

    try:
        crash()
    except RuntimeError:
        log.exception("the attempt went wrong")

    [line] = lines(capsys)
    told = str(line["exception"])
    assert CANARY not in told
    assert told.startswith("RuntimeError < ")
    assert "test_logs.py:" in told
    assert " | caused by ValueError < " in told


def test_our_own_and_the_systems_words_are_kept() -> None:
    own = StoreUnavailable("homing.db: database is locked")
    system = FileNotFoundError(2, "No such file or directory", f"/tmp/{CANARY}")

    assert place_of(own) == "StoreUnavailable: homing.db: database is locked"
    assert place_of(system) == "FileNotFoundError: No such file or directory"
    assert place_of(OSError(CANARY)) == "OSError"


def test_an_exception_handed_over_as_itself_is_placed_too(
    capsys: pytest.CaptureFixture[str],
) -> None:
    configure("info", "json")

    log.error("it went wrong", exc_info=ValueError(CANARY))

    [line] = lines(capsys)
    assert line["exception"] == "ValueError"


def test_a_task_that_nobody_awaited_is_told_without_its_words(
    capsys: pytest.CaptureFixture[str],
) -> None:
    configure("info", "json")

    async def crash() -> None:
        raise ValueError(CANARY)

    async def forget() -> None:
        task = asyncio.ensure_future(crash())
        await asyncio.wait([task])

    asyncio.run(forget())

    [line] = lines(capsys)
    assert line["event"] == "Task exception was never retrieved"
    assert CANARY not in str(line)


def test_text_is_for_people(capsys: pytest.CaptureFixture[str]) -> None:
    configure("info", "text")

    log.info("hello")

    assert "[info" in capsys.readouterr().err


def test_what_draws_on_a_terminal_is_loaded_for_terminals_alone() -> None:
    script = """
import sys
from homing.observers.logs import LogObserver, configure
for style in ("json", "text"):
    configure("info", style)
    LogObserver("info", style)
print(sorted({"pygments", "rich", "structlog"} & sys.modules.keys()))
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )

    assert done.stdout == "[]\n"
