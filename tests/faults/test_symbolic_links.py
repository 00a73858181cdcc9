"""A symbolic link in the place of a file of ours is refused, and its target is left as it was."""
# ruff: noqa: ASYNC240 - what lies in the files is what the test is about, and nobody else waits

from __future__ import annotations

from pathlib import Path

import pytest

from homing.domain.errors import StoreUnavailable
from homing.runtime.app import Homing
from homing.stores.emergency import FileJournal
from homing.stores.host import ProcessLocks
from homing.stores.sql.sqlite import SqliteStore
from homing.testing import samples


@pytest.fixture
def target(tmp_path: Path) -> Path:
    """A file of somebody else."""
    (tmp_path / "theirs").write_text("precious")
    return tmp_path / "theirs"


@pytest.mark.parametrize("suffix", [".emergency", ".high-water", ".checkpoint.lock"])
@pytest.mark.parametrize("is_there", [True, False])
async def test_a_start_is_refused_in_words(target: Path, suffix: str, is_there: bool) -> None:
    if not is_there:
        target.unlink()
    path = target.with_name("outbox.db")
    path.with_name(path.name + suffix).symlink_to(target)

    with pytest.raises(StoreUnavailable, match=f"^outbox.db{suffix}: is a symbolic link"):
        async with Homing(path, provider="stub:"):
            pass

    assert target.exists() == is_there
    assert not is_there or target.read_text() == "precious"


async def test_one_that_is_put_there_later_is_not_followed(target: Path) -> None:
    path = target.with_name("outbox.db")
    store = SqliteStore(path)
    await store.open()
    path.with_name("outbox.db.high-water").unlink(missing_ok=True)
    path.with_name("outbox.db.high-water").symlink_to(target)

    await store.add([samples.new("d1")])
    await store.close()

    assert target.read_text() == "precious"


async def test_what_is_kept_of_a_damaged_journal_makes_no_file_elsewhere(tmp_path: Path) -> None:
    path = tmp_path / "outbox.db.emergency"
    path.write_text("damaged")
    path.with_name(f"{path.name}.damaged-1").symlink_to(tmp_path / "elsewhere")
    journal = FileJournal(path)

    assert await journal.entries() == []

    assert "is a symbolic link" in (journal.damage or "")
    assert not (tmp_path / "elsewhere").exists()
    assert path.read_text() == "damaged"


def test_the_lock_of_a_process(target: Path, tmp_path: Path) -> None:
    (tmp_path / "locks").mkdir()
    (tmp_path / "locks" / "w1.lock.new").symlink_to(target)

    ProcessLocks(tmp_path / "locks").announce("w1", "boot-1")

    assert target.read_text() == "precious"
