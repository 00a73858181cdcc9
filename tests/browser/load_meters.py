"""What a program has used of the processor, and the slow statements of PostgreSQL."""

from __future__ import annotations

import re
from pathlib import Path

import psutil

from tests.servers import Server

_SLOW = re.compile(r"duration: (?P<ms>[\d.]+) ms  (?:execute \S+|statement): (?P<text>.*)")
SHOWN_CHARS = 160


def cpu_s(pid: int) -> float:
    """Of all its threads, to the nanosecond: `times` counts in hundredths of a second."""
    used_ns = 0
    for thread in Path(f"/proc/{pid}/task").iterdir():
        used_ns += int((thread / "schedstat").read_text().split()[0])
    return used_ns / 1e9


class Meter:
    """Of the server, and of the database with all its processes."""

    def __init__(self, pid: int, database_pid: int | None) -> None:
        self._pid = pid
        self._database_pid = database_pid

    def read(self) -> tuple[float, float]:
        theirs = 0.0
        if self._database_pid is not None:
            for child in psutil.Process(self._database_pid).children():
                theirs += cpu_s(child.pid)
        return cpu_s(self._pid), theirs


class PostgresLog:
    """The statements that took long since the last look."""

    def __init__(self, server: Server) -> None:
        self.pid = server.pid
        self._path = server.log
        self._seen = 0

    def slowest(self, most: int = 2) -> list[str]:
        text = self._path.read_text(errors="replace")
        fresh, self._seen = text[self._seen :], len(text)
        # A statement of several lines goes on behind a tab.
        slow: dict[str, float] = {}
        for found in _SLOW.finditer(fresh.replace("\n\t", " ")):
            said = " ".join(found["text"].split())[:SHOWN_CHARS]
            slow[said] = max(slow.get(said, 0.0), float(found["ms"]))
        worst = sorted(slow.items(), key=lambda each: -each[1])[:most]
        return [f"{ms:.0f} ms: {said}" for said, ms in worst]
