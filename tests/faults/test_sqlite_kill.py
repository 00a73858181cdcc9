"""SIGKILL in the middle of concurrent adds: whatever was acknowledged is there, whole (I1, I2)."""

from __future__ import annotations

import itertools
import sqlite3
import subprocess
from pathlib import Path

from tests.faults.adding import acknowledged, adder, missing, run, start

KILLS = 6


def killed_after(process: subprocess.Popen[str], lines: int) -> list[str]:
    """What it said until it was killed, the last words included."""
    assert process.stdout is not None
    said = list(itertools.islice(process.stdout, lines))
    process.kill()
    said += process.stdout.readlines()
    process.stdout.close()
    process.wait()
    return [line.strip() for line in said if line.endswith("\n")]


def is_whole(path: Path) -> bool:
    with sqlite3.connect(path) as connection:
        answer = connection.execute("pragma integrity_check").fetchall()
    connection.close()
    return answer == [("ok",)]


async def test_nothing_acknowledged_is_lost_i1(tmp_path: Path) -> None:
    path = tmp_path / "outbox.db"
    ids: list[str] = []
    for kill in range(KILLS):
        process = start(adder(path, f"{kill}-", callers=32))
        ids += acknowledged(killed_after(process, 1 + 150 * kill))

    assert len(ids) > 150 * KILLS
    assert len(set(ids)) == len(ids)
    assert await missing(path, ids) == []
    assert is_whole(path)


async def test_the_survivor_of_two_processes_goes_on(tmp_path: Path) -> None:
    """The one that is killed may have held the write lock and the right to checkpoint."""
    path = tmp_path / "outbox.db"
    first = start(adder(path, "first-", callers=8))
    second = start(adder(path, "second-", callers=8))

    ids = acknowledged(killed_after(first, 200))
    ids += acknowledged(killed_after(second, 400))

    assert {delivery_id.partition("-")[0] for delivery_id in ids} == {"first", "second"}
    assert await missing(path, ids) == []
    assert is_whole(path)


async def test_killed_at_each_write_to_the_disk_p1(tmp_path: Path) -> None:
    """The kill comes with the n-th call that changes a file, for every n of a short life."""
    calls = "pwrite64,fdatasync,fsync,ftruncate,fallocate"
    for nth in itertools.count(1):
        path = tmp_path / f"{nth}.db"
        tracer = ["strace", "-f", "-qq", "-o", "/dev/null", "-e", f"trace={calls}"]
        tracer += ["-e", f"inject={calls}:signal=SIGKILL:when={1 + 4 * nth}"]

        said = run([*tracer, *adder(path, "d", callers=2, count=6)])

        ids = acknowledged(said)
        assert await missing(path, ids) == []
        assert is_whole(path)
        if len(ids) == 6:
            break
    assert nth > 10
