"""One locked file per process: the system itself unlocks it when the process dies.

`flock`, not `lockf`: POSIX locks drop when any descriptor of the file is closed, and they name
process ids, which differ between containers that share a volume.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from pathlib import Path
from urllib.parse import quote, unquote

from homing.stores.host.descriptors import OwnDescriptor
from homing.stores.own_files import open_own_file

SUFFIX = ".lock"
_LONGEST_BOOT = 256


class ProcessLocks:
    """`Presence` by lock files in a folder that the processes of a store share.

    A file contains the boot id of its process. A file of another boot proves nothing: on some
    network file systems a lock that is held on another machine looks free.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._held: dict[str, OwnDescriptor] = {}

    def announce(self, holder: str, boot: str) -> None:
        path = self._path(holder)
        held = self._held.get(holder)
        if held is not None:
            if _is_same_file(held.number, path):
                return
            self.abandon(holder)  # its file was removed from outside: others cannot see this lock
        with contextlib.suppress(OSError):  # a full disk: heartbeats remain, and it is tried again
            self._folder.mkdir(mode=0o700, exist_ok=True)
            self._held[holder] = _locked_file(path, boot)

    def look(self, boot: str) -> dict[str, bool]:
        try:
            names = os.listdir(self._folder)  # noqa: PTH208 - once a second: names are enough
        except OSError:  # there is none, or it cannot be read: heartbeats remain
            return {}
        found: dict[str, bool] = {}
        for name in names:
            holder = unquote(name.removesuffix(SUFFIX))
            if not name.endswith(SUFFIX) or holder in self._held:
                continue
            runs = _runs(self._folder / name, boot)
            if runs is not None:
                found[holder] = runs
        return found

    def running(self) -> list[str]:
        """All holders, this process's own included, whose lock is certainly held now."""
        names = [path.name for path in self._folder.glob(f"*{SUFFIX}")]
        return [unquote(name.removesuffix(SUFFIX)) for name in names if self._is_locked(name)]

    def _is_locked(self, name: str) -> bool:
        with contextlib.suppress(OSError):
            boot = (self._folder / name).read_text()
            return _runs(self._folder / name, boot) is True
        return False

    def forget(self, holder: str) -> None:
        with contextlib.suppress(OSError):
            self._path(holder).unlink()

    def withdraw(self, holder: str) -> None:
        if holder in self._held:
            self.forget(holder)
            self.abandon(holder)

    def abandon(self, holder: str) -> None:
        held = self._held.pop(holder, None)
        if held is not None:
            held.close()

    def _path(self, holder: str) -> Path:
        return self._folder / (quote(holder, safe="") + SUFFIX)


def _locked_file(path: Path, boot: str) -> OwnDescriptor:
    """It is locked before it gets its name, so a process that sees the name finds it locked."""
    made = path.with_name(path.name + ".new")
    number = open_own_file(made, os.O_RDWR | os.O_TRUNC)
    descriptor = OwnDescriptor(number)
    try:
        fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.write(number, boot.encode())
        made.rename(path)
    except OSError:
        descriptor.close()
        raise
    return descriptor


def _is_same_file(descriptor: int, path: Path) -> bool:
    try:
        ours, named = os.fstat(descriptor), path.stat()
    except OSError:
        return False
    return (ours.st_dev, ours.st_ino) == (named.st_dev, named.st_ino)


def _runs(path: Path, boot: str) -> bool | None:
    """None where the lock proves nothing: another boot's, or removed meanwhile."""
    try:
        number = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        if os.read(number, _LONGEST_BOOT) != boot.encode():
            return None
        # Shared: several processes that look at the same time do not see each other.
        fcntl.flock(number, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return None  # this file system has no such locks
    finally:
        os.close(number)
    return False
