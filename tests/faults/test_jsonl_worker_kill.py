"""SIGKILL of a worker process over a JSONL store, at any moment under load (I1, I7 to I10)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults import test_worker_kill
from tests.faults.worker import Setup


def test_every_acknowledged_delivery_ends_as_promised(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    setup = Setup(folder=tmp_path, store=tmp_path / "queue.jsonl", time=tmp_path / "time")
    test_worker_kill.test_every_acknowledged_delivery_ends_as_promised(setup, capsys)
