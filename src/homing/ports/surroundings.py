"""The emergency journal, the clock and the rng of a process."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from homing.domain.delivery import Change


class Journal(Protocol):
    """The emergency journal: outcomes of finished sends that the store refused."""

    damage: str | None
    """What the last `entries` found and could not read, and where it is kept; None: nothing."""

    async def append(self, changes: Sequence[Change]) -> None:
        """Durable when it returns, even on a full disk."""

    async def entries(self) -> list[Change]:
        """All readable records that were appended since the last `clear`, oldest first.

        Damage of one record does not hide the others.
        """

    async def clear(self) -> None:
        """Remove what `entries` returned, but nothing that was added later."""


class Clock(Protocol):
    """`now_ms` is the wall clock, for due times. `steady_s` never jumps: for leases, timeouts."""

    def now_ms(self) -> int:
        """Milliseconds since 1970 by the wall clock, which may be set back."""

    def steady_s(self) -> float:
        """Seconds by a clock that never jumps; only differences are meaningful."""

    @property
    def boot(self) -> str:
        """The id of the boot: steady times of one boot can be compared, also between processes."""


class Random(Protocol):
    """Random numbers, as a port so that a run can be repeated."""

    def roll(self) -> float:
        """Uniform in [0, 1)."""

    def entropy(self, size: int) -> bytes:
        """This many random bytes."""
