"""The effect of a retry policy in an outage: when attempts are made, and what survives."""

from __future__ import annotations

from msgspec import Struct

from homing.domain.failure import Failure
from homing.domain.policy import FullJitter, Retry


class Forecast(Struct, frozen=True):
    """For a message accepted as the outage begins, and for all that are accepted during it.

    With jitter the attempts are those of an average draw, which is only an estimate.
    """

    attempts_at_s: tuple[float, ...]
    outage_s: float
    delivered_at_s: float | None
    drawn: bool = False

    @property
    def reach_s(self) -> float:
        """How long after its acceptance a message is tried for the last time."""
        return self.attempts_at_s[-1]

    @property
    def survives(self) -> bool:
        return self.delivered_at_s is not None

    @property
    def lost_window_s(self) -> float:
        """Messages accepted within this time of the outage's start would be dead-lettered."""
        return max(self.outage_s - self.reach_s, 0.0)


def forecast(retry: Retry, outage_s: float) -> Forecast:
    """Attempts follow each other by the schedule alone: each fails at once during the outage."""
    drawn = isinstance(retry.schedule, FullJitter)
    failure, roll = Failure("outage"), 0.5
    times = [0.0]
    for number in range(2, retry.max_attempts + 1):
        times.append(times[-1] + retry.delay_ms(number, failure, roll) / 1000)
    delivered = next((at_s for at_s in times if at_s >= outage_s), None)
    return Forecast(tuple(times), outage_s, delivered, drawn)
