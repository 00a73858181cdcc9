"""Ctrl-C: what was done stays done and is told."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.cli.programs import START_S, clean_environ, run, until


@pytest.fixture(autouse=True)
def _can_be_interrupted() -> Iterator[None]:
    """A shell's background job ignores SIGINT, and so would the commands that it starts."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def interrupted(folder: Path, *words: str, after: str) -> tuple[int, str]:
    """Exit code and output of a command that is interrupted once this command prints something."""
    process = subprocess.Popen(
        [sys.executable, "-m", "homing", *words],
        cwd=folder,
        env=clean_environ({}),
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        until(
            lambda: process.poll() is not None or run(folder, *after.split()).stdout.count("\n") > 1
        )
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=START_S)
        return process.returncode, out
    finally:
        process.kill()
        process.wait()


def test_a_bulk_action_stops_and_says_how_far_it_came(tmp_path: Path) -> None:
    for number in range(3):
        to = ("--to", "bounce@stub.test", "--text", "t", "--key", f"k-{number}")
        run(tmp_path, "send", *to, code=1)

    words = ("dismiss", "--all", "-r", "old", "--per-second", "0.001")
    code, said = interrupted(tmp_path, *words, after="list --status dismissed")

    assert (code, said) == (1, "dismiss: 1 of 3 done; stopped: the process was stopped\n")
    items = json.loads(run(tmp_path, "list", "--state", "failed", "--json").stdout)["items"]
    assert len(items) == 2


def test_watching_ends_well(tmp_path: Path) -> None:
    run(tmp_path, "send", "--to", "ok@stub.test", "--text", "t")

    process = subprocess.Popen(
        [sys.executable, "-m", "homing", "watch", "--interval", "1h"],
        cwd=tmp_path,
        env=clean_environ({}),
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    try:
        assert "mail delivered 1" in process.stdout.readline()
        process.send_signal(signal.SIGINT)
        assert process.wait(START_S) == 0
    finally:
        process.kill()
        process.communicate()
