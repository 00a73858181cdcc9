"""Each planted bug is caught by the simulator alone, and the same seeds pass without it."""

from __future__ import annotations

import compileall
import shutil
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from tests.simulation.command import SOURCE, figures, simulate
from tests.simulation.planted import PLANTED, Planted

Runs = dict[str, "Future[CompletedProcess[str]]"]


@pytest.fixture(scope="module")
def pristine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy to plant in: the work tree is never touched, and may change meanwhile."""
    copy = tmp_path_factory.mktemp("pristine") / "homing"
    shutil.copytree(SOURCE / "homing", copy, ignore=shutil.ignore_patterns("__pycache__"))
    compileall.compile_dir(copy, quiet=2)
    return copy


@pytest.fixture(scope="module")
def runs(pristine: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runs]:
    """All of them, two at a time; each test waits for its own."""
    root = tmp_path_factory.mktemp("planted")

    def run(number: int, bug: Planted) -> CompletedProcess[str]:
        source = plant(bug, pristine, root / str(number))
        return simulate(*bug.words, source=source)

    with ThreadPoolExecutor(max_workers=2) as pool:
        yield {bug.name: pool.submit(run, number, bug) for number, bug in enumerate(PLANTED)}
        pool.shutdown(cancel_futures=True)


def plant(bug: Planted, pristine: Path, root: Path) -> Path:
    """The package with one file changed; the rest are links into the copy."""
    text = (pristine / bug.file).read_text(encoding="utf-8")
    times = text.count(bug.old)
    assert times == 1, (
        f"{bug.name}: its text stands {times} times in {bug.file}, so the list of planted bugs"
        f" is out of date: {bug.old!r}"
    )
    here, there = root / "homing", pristine
    for part in Path(bug.file).parts:
        here.mkdir(parents=True)
        for entry in there.iterdir():
            if entry.name not in (part, "__pycache__"):
                (here / entry.name).symlink_to(entry)
        here, there = here / part, there / part
    here.write_text(text.replace(bug.old, bug.new), encoding="utf-8")
    return root


def test_there_are_enough_of_them_and_no_two_are_the_same() -> None:
    assert len(PLANTED) >= 25
    assert len({bug.name for bug in PLANTED}) == len({bug[2:5] for bug in PLANTED}) == len(PLANTED)


@pytest.mark.timeout(900)
@pytest.mark.parametrize("bug", PLANTED, ids=lambda bug: bug.name)
def test_it_is_caught(bug: Planted, runs: Runs, pristine: Path) -> None:
    run = runs[bug.name].result()
    found = figures(run)
    assert found["violations"] > 0, f"{bug.name} went unseen; it breaks {bug.breaks}"
    assert run.returncode == 1
    told = run.stderr
    assert "seed=" in told, "the options of the failing seed are shown"
    assert "replay: " in told, "and how to see it again"
    as_it_is = simulate(*bug.words_until(found["seeds"]), source=pristine.parent)
    assert as_it_is.returncode == 0, f"not the bug was caught:\n{as_it_is.stderr[-3000:]}"
