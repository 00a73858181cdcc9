"""Which processes still run: by a lock file on this host, and by the sessions that the server sees.

A lock file that has become free proves a death on the same host. Beyond it, each process holds an
advisory lock in the session in which it listens: if the server has seen that session end and no
other one took its place, the process is gone. That a session lasts proves nothing (the server may
not have noticed that a host is gone), so then heartbeats decide. Behind a pooler there are no such
sessions.
"""

from __future__ import annotations

import contextlib
import os
import stat
import tempfile
from collections.abc import Iterable
from pathlib import Path

from homing.stores.host import ProcessLocks

# A process whose connection was cut needs a moment to take its lock again.
_RETURNS_WITHIN_S = 2.0
# After the server was away, or we were, the others may still be on their way back.
_OTHERS_RETURN_WITHIN_S = 10.0


class Sessions:
    """What our own session has seen of the others' sessions, look by look."""

    def __init__(self) -> None:
        self._since_s: float | None = None
        self._missing_since_s: dict[str, float] = {}
        self.ended: frozenset[str] = frozenset()

    def begin(self, now_s: float) -> None:
        self._since_s = now_s
        self._missing_since_s = {}
        self.ended = frozenset()

    def see(self, missing: Iterable[str], now_s: float) -> None:
        """These holders have no session now."""
        before = self._missing_since_s
        self._missing_since_s = {holder: before.get(holder, now_s) for holder in missing}
        since_s = now_s if self._since_s is None else self._since_s
        if now_s < since_s + _OTHERS_RETURN_WITHIN_S:
            return
        self.ended = frozenset(
            holder
            for holder, gone_s in self._missing_since_s.items()
            if now_s >= gone_s + _RETURNS_WITHIN_S
        )


class PostgresPresence:
    """`Presence` over both. `holders` are those of this process that have been announced."""

    def __init__(self) -> None:
        self._locks: ProcessLocks | None = None
        self.sessions = Sessions()
        self.holders: set[str] = set()
        self.gone: set[str] = set()

    def meet_in(self, database: str) -> None:
        """Where the processes of this host that use the same database put their lock files."""
        folder = Path(tempfile.gettempdir()) / f"homing-{os.getuid()}"
        with contextlib.suppress(OSError):  # heartbeats remain
            folder.mkdir(mode=0o700, exist_ok=True)
            found = folder.lstat()
            # What another user has put there is not used.
            if stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid():
                self._locks = ProcessLocks(folder / database)

    def announce(self, holder: str, boot: str) -> None:
        self.holders.add(holder)
        if self._locks is not None:
            self._locks.announce(holder, boot)

    def look(self, boot: str) -> dict[str, bool]:
        seen = dict.fromkeys(self.sessions.ended - self.holders, False)
        return seen | (self._locks.look(boot) if self._locks is not None else {})

    def forget(self, holder: str) -> None:
        self.gone.add(holder)
        if self._locks is not None:
            self._locks.forget(holder)

    def withdraw(self, holder: str) -> None:
        self.holders.discard(holder)
        self.gone.add(holder)
        if self._locks is not None:
            self._locks.withdraw(holder)

    def abandon(self, holder: str) -> None:
        self.holders.discard(holder)
        if self._locks is not None:
            self._locks.abandon(holder)
