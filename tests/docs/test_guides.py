"""README and guides: their blocks are run as they stand, in order, in an empty folder.

Every file `docs/guides/*.md`, here and of the systems, is taken; a new guide needs nothing here.
What a block is:

- `python`: run. All of a document share one session, so a later block may use the names of an
  earlier one. Top-level `await` is not Python: show a whole `async def` and `asyncio.run`.
- `sh`: run by one shell for the whole document; a command that fails fails the test. Homing's
  commands and those of our development environment (pytest, gunicorn, curl) are on the PATH.
- `sh serves=8000`: started in the background and waited for until that port answers; ended when
  the document ends. The port is replaced by a free one throughout the document.
- `console`: each line behind `$ ` is typed (indented lines continue it) until it answers what the
  document shows below it. Ids, times and waits may differ.
- any language with `title="shop/mail.py"`: written to that file, as the reader would do. Show how
  to run it in an `sh` block: `python shop/mail.py`, or `pytest` for tests.
- anything else (`toml`, `nginx`, `text`, …): shown only.

A block that cannot be run says why in its fence, behind the language: `not-run="needs root"`.
Python and shell are then checked for their syntax alone. GitHub shows the first word only.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tests.docs.blocks import GUIDES, OF_SYSTEMS, REPOSITORY, blocks_in
from tests.docs.following import Following

# Tested with servers that they need, or by tests that they show only parts of.
TESTED_ELSEWHERE = {
    "rest.md": "tests/unit/web/test_guide.py",
    "postgresql.md": "tests/docs/test_postgresql_guide.py",
    "writing-a-store.md": "tests/contract/test_guide.py",
    "writing-a-provider.md": "tests/docs/test_provider_guide.py",
    "writing-a-plugin.md": "tests/docs/test_plugin_guide.py",
}
DOCUMENTS = [
    REPOSITORY / "README.md",
    *sorted(GUIDES.glob("*.md")),
    *sorted(OF_SYSTEMS.glob("*.md")),
]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_a_document_can_be_followed_word_for_word(document: Path, tmp_path: Path) -> None:
    blocks = list(blocks_in(document))
    if document.name in TESTED_ELSEWHERE:
        assert (REPOSITORY / TESTED_ELSEWHERE[document.name]).exists()
        return
    with Following(blocks, tmp_path) as following:
        for block in blocks:
            try:
                following.follow(block)
            except AssertionError as error:
                raise AssertionError(f"{block.place}: {error}") from error


def test_the_readme_names_the_two_commands() -> None:
    text = (REPOSITORY / "README.md").read_text()
    assert re.search(r"^make run$", text, re.MULTILINE)
    assert re.search(r"^make test$", text, re.MULTILINE)


def test_make_help_lists_the_targets() -> None:
    done = subprocess.run(
        ["make", "help"], cwd=REPOSITORY, capture_output=True, text=True, check=True
    )
    for target in ("run", "test", "check", "bench", "simulate", "docs"):
        assert f"make {target}" in done.stdout
