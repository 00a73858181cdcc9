"""Files that Homing writes beside its store. A user who may create files there must not be able to
make Homing overwrite other files, so a symbolic link is refused."""

from __future__ import annotations

import errno
import os
from pathlib import Path

_OWNER_ONLY = 0o600
_IS_LINK = "is a symbolic link, and would overwrite another file: remove the link"


def open_own_file(path: Path, flags: int) -> int:
    """A descriptor of the file, which is created if it is missing, for its owner alone."""
    refuse_link(path)
    # The flag is for a link that is put there after the check, which only has better words.
    return os.open(path, flags | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, _OWNER_ONLY)


def refuse_link(path: Path) -> None:
    if path.is_symlink():
        raise OSError(errno.ELOOP, _IS_LINK, str(path))
