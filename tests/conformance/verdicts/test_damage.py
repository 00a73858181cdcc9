"""A damaged queue of verdict mails: the programs go on, and no paid session is sent twice."""

from __future__ import annotations

import shutil
from pathlib import Path

from homing.testing.clocks import ManualClock
from tests.conformance.verdicts.office import DAY_S, Office

SESSIONS = ("cs_sent", "cs_dead", "cs_later")


async def post(office: Office, session_id: str) -> str:
    answer = await office.post(session_id=session_id, customer_email=f"{session_id}@example.org")
    return str(answer.json()["outcome"])


async def worked(folder: Path) -> None:
    """One session is sent, one is refused, and one waits for its next retry."""
    async with Office(folder, ManualClock(), "202", "400", "503", "503").open() as office:
        for session_id in SESSIONS:
            await post(office, session_id)


def damage(queue: Path, line: int, place: int) -> None:
    """Eight bytes in a row."""
    lines = queue.read_bytes().splitlines(keepends=True)
    start = sum(map(len, lines[:line])) + len(lines[line]) * place // 10
    data = queue.read_bytes()
    queue.write_bytes(
        data[:start] + bytes(byte ^ 0xFF for byte in data[start : start + 8]) + data[start + 8 :]
    )


async def test_damage_in_any_line_sends_nothing_twice(tmp_path: Path) -> None:
    (tmp_path / "whole").mkdir()
    await worked(tmp_path / "whole")
    lines = len((tmp_path / "whole" / "queue.jsonl").read_bytes().splitlines())
    for line in range(lines):
        for place in (0, 3, 6, 9):
            folder = tmp_path / f"{line}-{place}"
            shutil.copytree(tmp_path / "whole", folder)
            damage(folder / "queue.jsonl", line, place)

            async with Office(folder, ManualClock()).open() as office:
                await office.work_for(DAY_S)
                await office.homing.engine.give_notices()
                answers = {session_id: await post(office, session_id) for session_id in SESSIONS}

            sent = [call.recipients for call in office.graph.calls]
            assert sent in ([], [("cs_later@example.org",)]), (line, place)
            assert answers["cs_sent"] == "sent", (line, place)
            assert answers["cs_dead"] in ("dead", "sent"), (line, place)
            if answers["cs_later"] == "dead":
                assert "cs_later" in "".join(office.alerts()), (line, place)
            copies = sorted((folder / "queue.jsonl.d").glob("damaged-*"))
            assert [copy.name for copy in copies] == ["damaged-1"], (line, place)
            shutil.rmtree(folder)
