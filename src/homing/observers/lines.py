"""Append-only log files, mode 0600; a line is looked for before it is added."""

from __future__ import annotations

import os
from pathlib import Path


class LineFile:
    """Several processes may append; each line is one write call and is on disk when it returns."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def append(self, line: str, *, unless: str | None = None) -> None:
        """Add the line, unless one holding `unless` is there already (a notice given twice)."""
        if unless is not None and self.holds(unless):
            return
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        descriptor = os.open(self.path, flags, 0o600)
        try:
            data = line.encode() + b"\n"
            if os.write(descriptor, data) != len(data):
                raise OSError("the line was cut short")
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def holds(self, mark: str) -> bool:
        if not self.path.exists():
            return False
        with self.path.open("rb") as file:
            wanted = mark.encode()
            return any(wanted in line for line in file)
