"""A program that ends does not leave a send half done."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.unit.sync.scripts import recipients, run

IN_THE_MIDDLE = """
homing.sync.submit(mail("ann"))
until(lambda: homing.provider.calls)
"""


def states(folder: Path) -> list[tuple[str, str | None]]:
    with closing(sqlite3.connect(folder / "app.db")) as database:
        return list(database.execute("select state, holder from homing_deliveries"))


@pytest.mark.parametrize(("end", "code"), [("", 0), ("sys.exit(3)", 3)])
def test_a_send_under_way_is_finished(tmp_path: Path, end: str, code: int) -> None:
    run(tmp_path, IN_THE_MIDDLE + end, latency_ms=500, code=code)

    assert states(tmp_path) == [("delivered", None)]
    assert recipients(tmp_path) == ["ann"]
    assert not (tmp_path / "app.db.processes").exists()


def test_what_outlasts_the_grace_is_taken_over_at_once(tmp_path: Path) -> None:
    """Not when its lease ends: the next process sees that the first is gone."""
    run(tmp_path, "homing.shutdown_grace_s = 0.1\n" + IN_THE_MIDDLE, latency_ms=3_600_000)
    assert recipients(tmp_path) == []

    run(tmp_path, "homing.sync.start()\nuntil(sent)", logs="leases_of_dead_ended")
    assert recipients(tmp_path) == ["ann"]


def test_so_it_is_in_a_child_of_multiprocessing(tmp_path: Path) -> None:
    child = """
def work():
    homing.sync.submit(mail("ann"))
    until(lambda: homing.provider.calls)

child = multiprocessing.get_context("fork").Process(target=work)
child.start()
child.join()
assert child.exitcode == 0
"""
    run(tmp_path, child, latency_ms=500)

    assert states(tmp_path) == [("delivered", None)]
    assert recipients(tmp_path) == ["ann"]


def test_a_thread_that_outlives_the_main_thread_is_refused_in_words(tmp_path: Path) -> None:
    late = """
def work():
    until(lambda: not homing.running_in)
    try:
        homing.sync.submit(mail("bob"))
    except NotAllowed as refused:
        print(refused)

homing.sync.submit(mail("ann"))
threading.Thread(target=work).start()
"""
    assert "the program is ending" in run(tmp_path, late)
