"""Log files to which lines are appended once, whole, and durably."""

import fcntl
import os
import re
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from homing.observers import lines
from homing.observers.lines import LOOKED_AT_BYTES, LineFile


def test_a_line_is_appended_to_a_file_for_its_owner_alone(tmp_path: Path) -> None:
    file = LineFile(tmp_path / "log")

    file.append(["one"])
    file.append(["two", "three"])

    assert file.path.read_text() == "one\ntwo\nthree\n"
    assert stat.S_IMODE(file.path.stat().st_mode) == 0o600


def test_a_line_that_is_there_already_is_not_repeated(tmp_path: Path) -> None:
    file = LineFile(tmp_path / "log", re.compile(rb"delivery=\S+ cycle=\d+ "))

    file.append(["10:00 delivery=1 cycle=1 dead", "a line without a mark"])
    file.append(["10:05 delivery=1 cycle=1 dead", "10:05 delivery=11 cycle=1 dead"])
    file.append(["10:09 delivery=1 cycle=2 dead", "a line without a mark"])
    file.append(["10:10 delivery=1 cycle=2 dead"])

    assert file.path.read_text().splitlines() == [
        "10:00 delivery=1 cycle=1 dead",
        "a line without a mark",
        "10:05 delivery=11 cycle=1 dead",
        "10:09 delivery=1 cycle=2 dead",
    ]


def test_a_repeated_group_that_is_longer_than_what_is_looked_at_is_found(tmp_path: Path) -> None:
    file = LineFile(tmp_path / "log")
    group = [f"{number} {'x' * LOOKED_AT_BYTES}" for number in range(3)]
    file.append(group)

    file.append([*group, "next"])

    assert [line[0] for line in file.path.read_text().splitlines()] == ["0", "1", "2", "n"]


def test_only_the_newest_part_of_a_long_file_is_looked_at(tmp_path: Path) -> None:
    file = LineFile(tmp_path / "log")
    file.append(["mark"])
    with file.path.open("a") as old:
        old.write("x" * (LOOKED_AT_BYTES + len("mark")) + "\n")

    file.append(["mark"])

    assert file.path.read_text().endswith("\nmark\n")


def test_no_lines_make_no_file(tmp_path: Path) -> None:
    file = LineFile(tmp_path / "log")

    file.append([])

    assert not file.path.exists()


def test_a_torn_line_of_a_crash_does_not_swallow_the_next(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text("whole\nto")

    LineFile(path).append(["next"])

    assert path.read_text() == "whole\nto\nnext\n"


def test_text_without_an_encoding_is_written_escaped(tmp_path: Path) -> None:
    file = LineFile(tmp_path / "log")

    file.append(["a\ud800b"])

    assert file.path.read_text() == "a\\ud800b\n"


def test_a_full_disk_is_told(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No space left"):
        LineFile(Path("/dev/full")).append(["lost"])


def test_a_missing_folder_is_told(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        LineFile(tmp_path / "none" / "log").append(["lost"])


def test_a_process_that_keeps_the_lock_does_not_silence_others_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lines, "LOCK_TIMEOUT_S", 0.05)
    path = tmp_path / "log"
    keeper = os.open(path, os.O_RDWR | os.O_CREAT)
    fcntl.flock(keeper, fcntl.LOCK_EX)

    with pytest.raises(BlockingIOError):
        LineFile(path).append(["later"])
    os.close(keeper)
    LineFile(path).append(["now"])

    assert path.read_text() == "now\n"


WRITER = """
import sys
from pathlib import Path
from homing.observers.lines import LineFile
file = LineFile(Path(sys.argv[1]))
for number in range(25):
    file.append([f"{sys.argv[2]}-{number} {'x' * 200}", f"shared={number} "])
"""


def test_several_processes_write_whole_lines_and_repeat_none(tmp_path: Path) -> None:
    path = tmp_path / "log"
    command = [sys.executable, "-c", WRITER, str(path)]

    writers = [subprocess.Popen([*command, name]) for name in "abc"]
    ended = [writer.wait(30) for writer in writers]

    written = path.read_text().splitlines()
    shared = [line for line in written if line.startswith("shared=")]
    assert ended == [0, 0, 0]
    assert len(written) == 3 * 25 + 25
    assert sorted(shared) == sorted(f"shared={number} " for number in range(25))
