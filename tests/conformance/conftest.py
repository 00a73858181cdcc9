"""What every conformance test is given: a clock that stands still until it is moved."""

import pytest

from homing.testing.clocks import ManualClock
from tests.conformance.world import START_MS


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(START_MS)
