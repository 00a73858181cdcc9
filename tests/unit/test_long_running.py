"""How Homing's own programs run."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator

import pytest

from homing.runtime import long_running


@pytest.fixture(autouse=True)
def settings_of_the_interpreter() -> Iterator[None]:
    thresholds, interval_s = gc.get_threshold(), sys.getswitchinterval()
    yield
    gc.unfreeze()
    gc.set_threshold(*thresholds)
    sys.setswitchinterval(interval_s)


def test_threads_of_the_store_get_the_interpreter_from_a_busy_event_loop() -> None:
    long_running.has_started()

    assert sys.getswitchinterval() == pytest.approx(long_running.SWITCH_INTERVAL_S)
    assert gc.get_threshold() == long_running.GC_THRESHOLDS
