"""docs/guides/testing.md names what the stub does, and examples run without our settings."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from homing.domain.failure import Failure
from homing.providers.stub import ANSWERS, BEHAVIOURS, Accept, answer_for
from tests.docs.blocks import GUIDES, REPOSITORY

GUIDE = (GUIDES / "testing.md").read_text("utf-8")
# What each row of the guide's table of words stands for.
MEANINGS = {
    "accepted": Accept(),
    "accepted, but the answer is lost: in doubt": Accept(answer_lost=True),
    "refused permanently": "reject",
    "bad credentials: a fault of the route": "route_fault",
    "tried again": "retry",
    "on the suppression list": "suppress",
}


def test_every_test_address_is_in_the_guide() -> None:
    rows = dict(re.findall(r"^\| `(\S+)@stub\.test` \| (.+) \|$", GUIDE, re.MULTILINE))

    assert rows.keys() == BEHAVIOURS.keys()
    for name, what in rows.items():
        assert what.startswith(BEHAVIOURS[name].split(":")[0]), name


def test_every_word_of_a_script_means_what_the_guide_says() -> None:
    [table] = re.findall(r"^\| word \| answer \|\n(.*?)\n\n", GUIDE, re.MULTILINE | re.DOTALL)
    rows = re.findall(r"^\| (.+?) \| (.+) \|$", table, re.MULTILINE)
    found = {word: what for words, what in rows for word in re.findall(r"`(\w+)`", words)}
    examples = {"2xx": "250", "4xx": "404", "5xx": "503"}

    assert found.keys() == ANSWERS.keys() | examples.keys()
    for word, what in found.items():
        answer = answer_for(examples.get(word, word))
        if what in MEANINGS:
            meaning = answer.disposition if isinstance(answer, Failure) else answer
            assert meaning == MEANINGS[what], word
        else:
            assert isinstance(answer, Failure)
            assert answer.maybe_sent == ("in doubt" in what), word


@pytest.mark.parametrize(
    "example", sorted((REPOSITORY / "examples").glob("test_*.py")), ids=lambda path: path.name
)
def test_an_example_runs_with_the_default_settings_of_pytest(example: Path, tmp_path: Path) -> None:
    """That is, pytest-asyncio in its strict mode."""
    shutil.copy(example, tmp_path)

    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )

    assert ran.returncode == 0, ran.stdout
    assert "skipped" not in ran.stdout
