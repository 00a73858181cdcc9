"""A process that has ended, in whatever way, no longer holds its lock."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from homing.stores.host import ProcessLocks

BOOT = "boot-1"
# It announces itself, forks a child that lives on, says so, and waits to be killed.
PARENT = """
import os, sys, time
from pathlib import Path
from homing.stores.host import ProcessLocks
locks = ProcessLocks(Path(sys.argv[1]))
locks.announce("parent", "boot-1")
if os.fork() == 0:
    print("child lives", flush=True)
    sys.stdin.read()
    os._exit(0)
while True:
    time.sleep(60)
"""


def test_a_running_process_is_seen_and_its_own_are_left_out(tmp_path: Path) -> None:
    one, other = ProcessLocks(tmp_path), ProcessLocks(tmp_path)
    one.announce("w1", BOOT)
    other.announce("w2", BOOT)
    one.announce("w1", BOOT)

    assert one.look(BOOT) == {"w2": True}
    assert other.look(BOOT) == {"w1": True}


def test_a_killed_process_is_dead_though_its_forked_child_lives(tmp_path: Path) -> None:
    locks = ProcessLocks(tmp_path)
    with subprocess.Popen(
        [sys.executable, "-c", PARENT, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as parent:
        assert parent.stdout is not None
        parent.stdout.readline()
        seen = locks.look(BOOT)
        parent.kill()
        parent.wait()
        after = locks.look(BOOT)
        assert parent.stdin is not None
        parent.stdin.close()  # the child ends

    assert seen == {"parent": True}
    assert after == {"parent": False}


def test_who_sees_a_new_lock_finds_it_held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[dict[str, bool]] = []
    rename = Path.rename

    def rename_and_look(self: Path, target: Path) -> Path:
        renamed = rename(self, target)
        seen.append(ProcessLocks(tmp_path).look(BOOT))
        return renamed

    monkeypatch.setattr(Path, "rename", rename_and_look)
    ProcessLocks(tmp_path).announce("w1", BOOT)

    assert seen == [{"w1": True}]


def test_several_may_look_at_the_same_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The lock that a look takes hides no death from another look."""
    import fcntl

    dead = ProcessLocks(tmp_path)
    dead.announce("w1", BOOT)
    dead.abandon("w1")
    seen: list[dict[str, bool]] = []
    flock = fcntl.flock

    def look_while_another_looks(descriptor: int, operation: int) -> None:
        flock(descriptor, operation)
        monkeypatch.setattr(fcntl, "flock", flock)
        seen.append(ProcessLocks(tmp_path).look(BOOT))

    monkeypatch.setattr(fcntl, "flock", look_while_another_looks)
    seen.append(ProcessLocks(tmp_path).look(BOOT))

    assert seen == [{"w1": False}, {"w1": False}]


@pytest.mark.parametrize("holder", ["host-1-ab", "../up", "a/b", ".", "häns 1", "%2F"])
def test_any_name_will_do(tmp_path: Path, holder: str) -> None:
    folder = tmp_path / "processes"
    one = ProcessLocks(folder)
    one.announce(holder, BOOT)

    assert ProcessLocks(folder).look(BOOT) == {holder: True}
    one.withdraw(holder)
    assert list(folder.iterdir()) == []


def test_only_its_owner_can_read_it(tmp_path: Path) -> None:
    folder = tmp_path / "processes"
    ProcessLocks(folder).announce("w1", BOOT)

    assert folder.stat().st_mode & 0o077 == 0
    assert [file.stat().st_mode & 0o077 for file in folder.iterdir()] == [0]


def test_where_no_file_can_be_made_heartbeats_remain(tmp_path: Path) -> None:
    folder = tmp_path / "processes"
    folder.write_text("a file is in the way")
    locks = ProcessLocks(folder)

    locks.announce("w1", BOOT)
    locks.withdraw("w1")


def test_a_folder_that_cannot_be_read_shows_no_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Heartbeats remain. (The tests may run as root, who can read everything.)"""

    def refuse(*args: object) -> None:
        raise PermissionError(13, "Permission denied")

    locks = ProcessLocks(tmp_path)
    monkeypatch.setattr(os, "listdir", refuse)
    monkeypatch.setattr(Path, "unlink", refuse)
    assert locks.look(BOOT) == {}
    locks.forget("w1")


def test_a_folder_that_is_not_there_shows_no_process(tmp_path: Path) -> None:
    assert ProcessLocks(tmp_path / "none").look(BOOT) == {}
