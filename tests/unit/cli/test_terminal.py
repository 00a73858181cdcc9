"""Output for people: colour and a fitting table on a terminal, plain text everywhere else."""

from __future__ import annotations

import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios
from pathlib import Path
from typing import Any

import pytest

from homing.cli import terminal
from homing.cli.terminal import Colored, cell_width, table
from tests.unit.cli.conftest import Cli
from tests.unit.cli.programs import START_S, clean_environ

ESCAPE = "\x1b["


def on_a_terminal(folder: Path, *words: str, columns: int = 200, **environ: str) -> str:
    """What a real terminal of this width is sent by a real `homing`."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    given = {"TERM": "xterm-256color", **environ}
    kept = {n: v for n, v in clean_environ(given).items() if n not in ("COLUMNS", "LINES")}
    if "NO_COLOR" not in environ:
        kept.pop("NO_COLOR", None)
    process = subprocess.Popen(
        [sys.executable, "-m", "homing", *words],
        cwd=folder,
        env=kept,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
    )
    os.close(theirs)
    told = bytearray()
    try:
        while part := _read(ours):
            told += part
        assert process.wait(START_S) in (0, 1, 2)
    finally:
        process.kill()
        process.wait()
        os.close(ours)
    return told.decode().replace("\r\n", "\n")


def _read(descriptor: int) -> bytes:
    """Empty once the other side has closed it."""
    try:
        return os.read(descriptor, 65_536)
    except OSError:
        return b""


def test_a_terminal_has_colour(cli: Cli, letters: dict[str, str], tmp_path: Path) -> None:
    shown = on_a_terminal(tmp_path, "list")

    assert "\x1b[31mfailed\x1b[0m" in shown
    assert "\x1b[32mdelivered\x1b[0m" in shown
    assert "\x1b[31mfailed\x1b[0m" in on_a_terminal(tmp_path, "why", letters["bounce"])
    assert "\x1b[31mhoming:\x1b[0m no delivery x" in on_a_terminal(tmp_path, "show", "x")


@pytest.mark.parametrize("environ", [{"NO_COLOR": "1"}, {"TERM": "dumb"}])
def test_colour_can_be_refused(
    cli: Cli, letters: dict[str, str], tmp_path: Path, environ: dict[str, Any]
) -> None:
    shown = on_a_terminal(tmp_path, "list", **environ)

    assert letters["bounce"] in shown
    assert ESCAPE not in shown


def test_a_pipe_gets_plain_text(cli: Cli, letters: dict[str, str]) -> None:
    for words in (["list"], ["status"], ["why", letters["bounce"]], ["show", letters["ok"]]):
        assert ESCAPE not in cli(*words).out


def test_a_narrow_terminal_gets_lines_that_fit(
    cli: Cli, letters: dict[str, str], tmp_path: Path
) -> None:
    shown = on_a_terminal(tmp_path, "list", columns=80, NO_COLOR="1")

    assert letters["bounce"] in shown
    assert "failed" in shown
    assert max(map(len, shown.splitlines())) <= 80


def test_a_terminal_sees_progress(cli: Cli, letters: dict[str, str], tmp_path: Path) -> None:
    shown = on_a_terminal(tmp_path, "dismiss", "--all", "-r", "old")

    assert "1/1" in shown
    assert "dismiss: 1 of 1 done" in shown


def test_columns_are_aligned_by_what_a_terminal_shows() -> None:
    lines = table(("name", "next"), [("日本", "x"), ("abc", "x")]).splitlines()

    assert [cell_width(line[: line.index("x")]) for line in lines[1:]] == [6, 6]
    assert lines[0].index("next") == 6


def test_a_cell_cannot_forge_a_colour_or_a_line() -> None:
    shown = table(("a",), [(Colored("\x1b[31mred\nforged", "red"),)])

    assert ESCAPE not in shown
    assert len(shown.splitlines()) == 2


def test_what_does_not_fit_goes_in_order_and_the_last_is_cut(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(terminal, "is_terminal", lambda stream=None: True)
    monkeypatch.setenv("COLUMNS", "20")
    monkeypatch.setenv("NO_COLOR", "1")
    rows = [("12345678", "middle", "less", "日本日本日本日本日本")]

    shown = table(("id", "b", "c", "last"), rows, first_to_go=("c", "b"))

    assert shown.splitlines()[0].split() == ["id", "last"]
    assert shown.splitlines()[1].startswith("12345678  日本")
    assert shown.endswith("…")
    assert max(map(cell_width, shown.splitlines())) <= 20
