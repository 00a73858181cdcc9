"""What SQLite's errors mean for the request that met them."""

from __future__ import annotations

import errno
import os
import sqlite3
from pathlib import Path

from homing.domain.errors import (
    StoreCorrupt,
    StoreError,
    StoreFull,
    StoreLocked,
    StoreOutcomeUnknown,
    StoreUnavailable,
)

# By primary result code. An error that is not listed is a bug of ours: a plain StoreError.
MEANINGS: dict[int, type[StoreError]] = {
    sqlite3.SQLITE_FULL: StoreFull,
    sqlite3.SQLITE_NOMEM: StoreFull,
    sqlite3.SQLITE_TOOBIG: StoreFull,
    sqlite3.SQLITE_BUSY: StoreLocked,
    sqlite3.SQLITE_LOCKED: StoreLocked,
    sqlite3.SQLITE_CANTOPEN: StoreUnavailable,
    sqlite3.SQLITE_READONLY: StoreUnavailable,
    sqlite3.SQLITE_PERM: StoreUnavailable,
    sqlite3.SQLITE_AUTH: StoreUnavailable,
    sqlite3.SQLITE_IOERR: StoreUnavailable,
    sqlite3.SQLITE_PROTOCOL: StoreUnavailable,
    sqlite3.SQLITE_CORRUPT: StoreCorrupt,
    sqlite3.SQLITE_NOTADB: StoreCorrupt,
}
# The shared index of the log grows by this much; less room than that reads as an I/O error.
_ROOM_NEEDED_BYTES = 64 * 1024


def store_error(
    error: sqlite3.Error | OSError, path: Path, *, committing: bool = False
) -> StoreError:
    """The error of the store's own tree that says what became of the request."""
    if isinstance(error, OSError):
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        name = Path(error.filename or path).name
        return (StoreFull if full else StoreUnavailable)(f"{name}: {error.strerror}")
    code = getattr(error, "sqlite_errorcode", None)
    name = getattr(error, "sqlite_errorname", type(error).__name__)
    message = f"{path.name}: {error} ({name})"
    if code is None:
        return StoreError(message)
    if code == sqlite3.SQLITE_BUSY:
        message += "; another connection is writing: if it is your own, submit with `within`"
    meaning = MEANINGS.get(code & 0xFF, StoreError)
    if code & 0xFF == sqlite3.SQLITE_IOERR:
        # A full disk hides behind some I/O errors; a failed sync leaves the commit in doubt.
        if _is_full(path):
            meaning = StoreFull
        elif committing:
            meaning = StoreOutcomeUnknown
    return meaning(message)


def _is_full(path: Path) -> bool:
    try:
        room = os.statvfs(path.parent)
    except OSError:
        return False
    return room.f_bavail * room.f_frsize < _ROOM_NEEDED_BYTES
