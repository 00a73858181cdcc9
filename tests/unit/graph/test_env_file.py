"""The `.env` file: what is read from it, and what a replacement leaves alone."""

import os
import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from homing.providers.graph.env_file import EnvFile
from tests.faults.syncs import recorded

TEXT = """# a comment with TOKEN=not-this
export A=1
TOKEN=old # the newest
B="two
TOKEN=inside of a quoted value
words" # after it
C='it\\'s'
  D = spaced
no assignment here
E=
"""


def env_file(folder: Path, text: str) -> EnvFile:
    path = folder / ".env"
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    return EnvFile(path)


def test_values_are_read_with_quotes_comments_and_export(tmp_path: Path) -> None:
    assert env_file(tmp_path, TEXT).values() == {
        "A": "1",
        "TOKEN": "old",
        "B": "two\nTOKEN=inside of a quoted value\nwords",
        "C": "it's",
        "D": "spaced",
        "E": "",
    }


def test_a_replacement_keeps_every_other_line_and_comment(tmp_path: Path) -> None:
    """O-071."""
    file = env_file(tmp_path, TEXT)

    assert file.replace("TOKEN", "new-1.2_3", expected="old")

    assert file.path.read_text() == TEXT.replace("TOKEN=old", "TOKEN=new-1.2_3")


@pytest.mark.parametrize(
    ("line", "after"),
    [
        ("T='old'", "T='new'"),
        ('T="old"', 'T="new"'),
        ("export T = old  # why", "export T = new  # why"),
        ("T=first\nT=old", "T=first\nT=new"),
        ("T=old\r\nU=1\r\n", "T=new\r\nU=1\r\n"),
    ],
)
def test_quoting_and_place_stay(tmp_path: Path, line: str, after: str) -> None:
    file = env_file(tmp_path, line)

    assert file.replace("T", "new", expected="old")

    assert file.path.read_bytes().decode() == after


@given(
    value=st.text(
        st.characters(exclude_categories=["Cs"], exclude_characters="\r\n\0"), min_size=1
    ),
    quote=st.sampled_from(["", "'", '"']),
)
def test_what_is_written_is_read_back(
    tmp_path_factory: pytest.TempPathFactory, value: str, quote: str
) -> None:
    file = env_file(tmp_path_factory.mktemp("env"), f"A=1\nT={quote}old{quote} # x\nB=2\n")

    assert file.replace("T", value, expected="old")

    assert file.values() == {"A": "1", "T": value, "B": "2"}


def test_a_value_that_someone_else_has_changed_is_left(tmp_path: Path) -> None:
    """O-072."""
    file = env_file(tmp_path, "TOKEN=by-hand\n")

    assert not file.replace("TOKEN", "new", expected="old")
    assert not file.replace("MISSING", "new", expected="old")

    assert file.path.read_text() == "TOKEN=by-hand\n"


def test_bytes_that_are_not_utf_8_stay(tmp_path: Path) -> None:
    file = env_file(tmp_path, "")
    file.path.write_bytes(b"# caf\xe9\nT=old\n")

    assert file.replace("T", "new", expected="old")

    assert file.path.read_bytes() == b"# caf\xe9\nT=new\n"


def test_the_new_file_is_for_its_owner_alone(tmp_path: Path) -> None:
    file = env_file(tmp_path, "T=old\n")
    file.path.chmod(0o644)
    mask = os.umask(0)
    try:
        assert file.replace("T", "new", expected="old")
    finally:
        os.umask(mask)

    assert stat.S_IMODE(file.path.stat().st_mode) == 0o600
    assert [path.name for path in tmp_path.iterdir()] == [".env"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_root_does_not_take_the_file_away_from_its_owner(tmp_path: Path) -> None:
    file = env_file(tmp_path, "T=old\n")
    os.chown(file.path, 4711, 4712)

    assert file.replace("T", "new", expected="old")

    assert (file.path.stat().st_uid, file.path.stat().st_gid) == (4711, 4712)


def test_a_replacement_is_on_the_disk_with_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the sync of the folder a power cut brings the old token back, which is spent."""
    file = env_file(tmp_path, TEXT)
    calls = recorded(monkeypatch)

    assert file.replace("TOKEN", "new", expected="old")
    monkeypatch.undo()

    assert calls == [
        ("fsync", tmp_path / ".env.new"),
        ("rename", tmp_path / ".env"),
        ("fsync", tmp_path),
    ]
