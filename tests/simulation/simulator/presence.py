"""Who still runs on which machine, as its lock files would show: death is seen at once there.

A frozen process keeps its lock, so it runs. A process on another machine shows nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping


class MachineLocks:
    """The locks of all processes of the world, by their holders."""

    def __init__(self, is_alive: Callable[[str], bool]) -> None:
        self._is_alive = is_alive
        self.boots: dict[str, str] = {}
        self.abandoned: set[str] = set()

    def runs(self, holder: str) -> bool:
        return holder not in self.abandoned and self._is_alive(holder)


class SimPresence:
    """One process's view of the locks on its machine."""

    def __init__(self, locks: MachineLocks, own: str) -> None:
        self._locks = locks
        self._own = own

    def announce(self, holder: str, boot: str) -> None:
        self._locks.boots[holder] = boot

    def look(self, boot: str) -> Mapping[str, bool]:
        return {
            holder: self._locks.runs(holder)
            for holder, its_boot in self._locks.boots.items()
            if its_boot == boot and holder != self._own
        }

    def forget(self, holder: str) -> None:
        self._locks.boots.pop(holder, None)

    def withdraw(self, holder: str) -> None:
        self.forget(holder)

    def abandon(self, holder: str) -> None:
        self._locks.abandoned.add(holder)
