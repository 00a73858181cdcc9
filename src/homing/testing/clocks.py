"""A clock that moves only when the test moves it."""

from __future__ import annotations

from datetime import UTC, datetime

DAY_S = 24 * 3600.0


def moment(at_ms: int) -> datetime:
    """The time of a clock as `send_at` and `expires_at` take it."""
    return datetime.fromtimestamp(at_ms / 1000, UTC)


class ManualClock:
    """Pass it to the engine instead of the system's clock; the test then sets the time.

    `advance` lets time pass; `jump` moves the wall clock alone, as a person or NTP would, and
    leaves the steady clock as it was.
    """

    def __init__(
        self, now_ms: int = 1_700_000_000_000, steady_s: float = 1000.0, boot: str = "boot-1"
    ) -> None:
        self._now_ms = float(now_ms)
        self._steady_s = steady_s
        self._boot = boot

    def now_ms(self) -> int:
        return int(self._now_ms)

    def steady_s(self) -> float:
        return self._steady_s

    @property
    def boot(self) -> str:
        return self._boot

    def advance(self, seconds: float) -> None:
        """Time passes, on both clocks."""
        if seconds < 0:
            raise ValueError("time does not pass backwards: use `jump` for the wall clock")
        self._now_ms += seconds * 1000
        self._steady_s += seconds

    def jump(self, seconds: float) -> None:
        """The wall clock alone is set to another time, forwards or back."""
        self._now_ms += seconds * 1000

    def reboot(self, boot: str) -> None:
        """The machine restarts: the steady clock begins at zero, with another boot id."""
        self._boot = boot
        self._steady_s = 0.0
