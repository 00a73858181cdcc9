"""Checks of files that contain addresses, tokens or payloads."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

from homing.ports import Finding

OTHERS = 0o077


def file_findings(path: Path) -> Iterator[Finding]:
    """Whether only its owner can read it, and can write it; no finding if both hold."""
    try:
        mode = stat.S_IMODE(path.stat().st_mode)
    except FileNotFoundError:
        if not os.access(path.parent, os.W_OK | os.X_OK):
            yield Finding("files", "bad", f"{path} cannot be made: its folder cannot be written")
        return
    except OSError as error:
        yield Finding("files", "bad", f"{path} cannot be looked at: {error.strerror}")
        return
    if mode & OTHERS:
        yield Finding("files", "bad", f"{path} can be read by others: chmod 600 {path}")
    if path.is_dir():
        yield Finding("files", "bad", f"{path} cannot be written")
    elif not os.access(path, os.R_OK | os.W_OK):
        detail = f"{path} cannot be written: chmod 600 {path} as its owner, who runs Homing too"
        yield Finding("files", "bad", detail)
