"""Whether a worker is there, and whether the files that tell of failures can be written."""

from __future__ import annotations

from pathlib import Path

from homing.runtime.app import use_as_worker
from homing.testing.clocks import ManualClock
from homing_systems.verdicts.presence import alert_if_absent, files, problems
from tests.conformance.verdicts.office import Office


async def test_an_absent_worker_is_a_problem_and_an_alert(
    tmp_path: Path, clock: ManualClock
) -> None:
    """O-098, O-099, O-130"""
    (tmp_path / "ALERT.log").write_text("an older line\n")
    async with Office(tmp_path, clock, "503", "503").open() as office:
        await office.post()
        [problem] = await problems(office.service)

    assert problem.startswith("no worker is running, 1 waiting")
    older, alert = office.alerts()
    assert older == "an older line"
    assert alert.startswith("[ALERT][oracle-email-retry] WORKER ABSENT: no worker is running")


async def test_a_worker_that_beats_is_there(tmp_path: Path, clock: ManualClock) -> None:
    """O-098"""
    worker = Office(tmp_path, clock)
    use_as_worker(worker.homing)
    async with worker.open(), Office(tmp_path, clock).open() as office:
        assert await problems(office.service) == []
        assert await alert_if_absent(office.service) is None

    assert office.alerts() == []


async def test_runs_of_a_timer_count_for_three_minutes(tmp_path: Path, clock: ManualClock) -> None:
    """O-097, O-098"""
    async with Office(tmp_path, clock, "503", "503").open() as office:
        await office.post()
        clock.advance(300)
        assert await office.homing.engine.run_once() == 1
        assert await problems(office.service) == []
        clock.advance(181)
        assert len(await problems(office.service)) == 1


async def test_a_file_that_cannot_be_written_is_named(tmp_path: Path, clock: ManualClock) -> None:
    """O-129"""
    (tmp_path / "ALERT.log").mkdir()
    async with Office(tmp_path, clock).open() as office:
        await office.homing.engine.run_once()
        assert await problems(office.service) == [f"{tmp_path}/ALERT.log cannot be written"]
        [finding] = await files(office.service)

    assert finding.verdict == "bad"
