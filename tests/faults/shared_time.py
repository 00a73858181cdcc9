"""A time that several processes read from one file, so that a test can let an hour pass for all.

Both clocks run as the system's do. `let_pass` moves both, as a machine that slept would see it;
`step_wall` moves the wall alone, as a person or NTP would.
"""

from __future__ import annotations

import mmap
import struct
from pathlib import Path

from homing.runtime.clock import SystemClock

_TIMES = struct.Struct("=dd")


class SharedTime:
    def __init__(self, path: Path) -> None:
        if not path.exists():
            path.write_bytes(_TIMES.pack(0.0, 0.0))
        with path.open("r+b") as file:
            self._map = mmap.mmap(file.fileno(), _TIMES.size)

    @property
    def passed_s(self) -> float:
        return float(_TIMES.unpack_from(self._map)[0])

    @property
    def wall_step_s(self) -> float:
        return float(_TIMES.unpack_from(self._map)[1])

    def let_pass(self, seconds: float) -> None:
        _TIMES.pack_into(self._map, 0, self.passed_s + seconds, self.wall_step_s)

    def step_wall(self, seconds: float) -> None:
        _TIMES.pack_into(self._map, 0, self.passed_s, self.wall_step_s + seconds)


class SharedClock(SystemClock):
    """The Clock of a process that lives in a SharedTime."""

    def __init__(self, time: SharedTime) -> None:
        self._time = time

    def now_ms(self) -> int:
        return super().now_ms() + round((self._time.passed_s + self._time.wall_step_s) * 1000)

    def steady_s(self) -> float:
        return super().steady_s() + self._time.passed_s
