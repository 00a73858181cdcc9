"""The runbook can be followed word for word, and every row of the document has a test."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.blocks import REPOSITORY, blocks_in
from tests.docs.following import Following
from tools.conformance import ROWS, covered_rows, without_test


def test_the_runbook_can_be_followed(
    empty_database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """E-032, E-046, E-047"""
    monkeypatch.setenv("DATABASE_URL", empty_database)
    blocks = list(blocks_in(REPOSITORY / "systems/docs/runbooks/event-substrate.md"))
    with Following(blocks, tmp_path) as following:
        for block in blocks:
            try:
                following.follow(block)
            except AssertionError as error:
                raise AssertionError(f"{block.place}: {error}") from error


def test_every_row_has_a_test() -> None:
    assert covered_rows("events").keys() <= set(ROWS["events"])
    assert without_test("events") == []
