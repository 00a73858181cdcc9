"""`homing watch`: what changes in the store, and one delivery until it ends."""

from __future__ import annotations

import json
from pathlib import Path

from tests.unit.cli.conftest import Cli
from tests.unit.cli.programs import START_S, run, started, until
from tests.unit.cli.test_terminal import on_a_terminal


def test_a_line_when_something_has_changed(cli: Cli, letters: dict[str, str]) -> None:
    said = cli("watch", "--count", "3", "--interval", "1ms").out
    lines = cli("watch", "--count", "3", "--interval", "1ms", "--json").out.splitlines()

    assert said.count("\n") == 1
    assert "mail pending 1, mail delivered 1" in said
    assert "0 worker(s)" in said
    assert len(lines) == 1
    assert json.loads(lines[0])["overview"]["counts"][0]["route"] == "mail"


def test_a_terminal_is_drawn_again(cli: Cli, letters: dict[str, str], tmp_path: Path) -> None:
    shown = on_a_terminal(tmp_path, "watch", "--count", "2", "--interval", "1ms")

    assert shown.count("\x1b[H\x1b[J") == 2
    assert "no worker is running" in shown


def test_a_delivery_that_has_ended_is_told_and_the_exit_code_says_how(
    cli: Cli, letters: dict[str, str]
) -> None:
    assert "the provider accepted it" in cli("watch", letters["ok"]).out
    assert "It is failed (rejected)." in cli("watch", letters["bounce"], code=1).out
    assert "no delivery x" in cli("watch", "x", code=1).err
    [line] = cli("watch", letters["ok"], "--json").out.splitlines()
    assert json.loads(line)["state"] == "delivered"


def test_a_delivery_is_followed_until_a_worker_has_ended_it(tmp_path: Path) -> None:
    sent = run(tmp_path, "send", "--to", "ok@stub.test", "--text", "t", "--queue", "--json")
    delivery_id = json.loads(sent.stdout)["delivery_id"]
    log = tmp_path / "watched.txt"

    with started(tmp_path, ["-c", FOLLOW, delivery_id]) as watching:
        until(lambda: log.exists() and "is due now" in log.read_text(), what="the first look")
        with started(tmp_path, ["-m", "homing", "worker"]):
            assert watching.process.wait(2 * START_S) == 0

    assert log.read_text().splitlines()[-1].startswith("It is delivered")


# Its stdout in a file: the helper keeps stderr only.
FOLLOW = """
import sys
sys.stdout = open("watched.txt", "w", buffering=1)
sys.argv = ["homing", "watch", sys.argv[1], "--interval", "20ms"]
from homing.cli import main
main()
"""
