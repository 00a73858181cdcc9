"""The service and the worker of verdict mails, killed at every single write of theirs: to the
queue, its journal, the dead-letter file, the delivery log and ALERT.log."""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

import msgspec
import pytest

from homing.observers import lines
from homing.stores.jsonl import files
from homing.testing.clocks import ManualClock
from tests.conformance.verdicts.office import DAY_S, Office
from tests.faults.disks import in_memory
from tests.faults.test_jsonl_kill import Call, Trapped, _say, after, halfway

ENDS = {"sent": "DELIVERED", "dead": "DEAD"}


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    with in_memory() as folder:
        yield folder


async def life(folder: Path, say: Callable[[str], None]) -> None:
    """A session that is sent, one that is refused, and one that a worker finds refused later."""
    async with Office(folder, ManualClock(), "202", "400", "503", "503", "403").open() as office:
        for session_id in ("cs_sent", "cs_dead", "cs_later"):
            answer = await office.post(session_id=session_id)
            say(f"{session_id} {answer.json()['outcome']}")
        await office.work_after(300)


async def check(folder: Path, said: list[str]) -> None:
    """What was acknowledged has ended as it was said, and every end has its lines, once."""
    async with Office(folder, ManualClock()).open() as office:
        await office.work_for(DAY_S)
        await office.homing.engine.give_notices()

    last = {line["session_id"]: line["status"] for line in office.lines()}
    for session_id, outcome in map(str.split, said):
        assert last[session_id] == ENDS.get(outcome, last[session_id])
    assert set(last.values()) <= set(ENDS.values())
    dead = Counter(session_id for session_id, word in last.items() if word == "DEAD")
    assert Counter(_letters(folder / "dead.jsonl")) == dead
    alerts = [line for line in office.alerts() if "last_error=" in line]
    assert Counter(line.split("session_id=")[1].split()[0] for line in alerts) == dead
    logged = [line for line in office.deliveries() if " attempt=" in line]
    assert Counter(line.split("session=")[1].split()[0] for line in logged) == Counter(
        session_id for session_id, word in last.items() if word == "DELIVERED"
    )


def _letters(path: Path) -> Iterator[str]:
    """The sessions of its lines. A line that the kill has cut off stays, and is not one."""
    for line in path.read_text().splitlines() if path.exists() else []:
        with suppress(msgspec.DecodeError):
            yield msgspec.json.decode(line)["session_id"]


@pytest.mark.parametrize("when", [halfway, after])
def test_a_kill_at_any_write_of_the_programs_loses_nothing_and_repeats_no_line(
    tmp_path: Path, when: Call
) -> None:
    for nth in range(1, 400):
        folder = tmp_path / str(nth)
        folder.mkdir()
        said, is_killed = _in_a_child(folder, nth, when)
        asyncio.run(check(folder, said))
        if not is_killed:
            assert nth > 40
            assert said == ["cs_sent sent", "cs_dead dead", "cs_later queued"]
            return
    pytest.fail("it writes and writes")


def _in_a_child(folder: Path, nth: int, when: Call) -> tuple[list[str], bool]:
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            trapped = Trapped(nth, when)
            setattr(files, "os", trapped)  # noqa: B010 - in this process alone
            setattr(lines, "os", trapped)  # noqa: B010 - as above
            asyncio.run(life(folder, partial(_say, writing)))
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        said = pipe.read().splitlines()
    _, status = os.waitpid(child, 0)
    return said, os.WIFSIGNALED(status)
