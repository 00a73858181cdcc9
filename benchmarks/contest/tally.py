"""Counts finished jobs without touching the store under test.

Each process counts in a small mapped file of its own: the count survives SIGKILL, and neither
locks nor the store's own I/O are shared with what is measured.
"""

import mmap
import os
import struct
import threading
import time
from dataclasses import dataclass
from pathlib import Path

COUNTER = struct.Struct("<qdd")  # jobs, first start, last start; the Node peers write it too
STAMP = struct.Struct("<d")


@dataclass(frozen=True, slots=True)
class Count:
    """What all processes together have started so far."""

    jobs: int
    first_s: float
    last_s: float

    @property
    def rate_per_s(self) -> float:
        span_s = self.last_s - self.first_s
        return self.jobs / span_s if span_s > 0 else 0.0


class Tally:
    """The worker's side: `tick` at the start of each job."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock = threading.Lock()
        self._pid = 0
        os.register_at_fork(after_in_child=self._forget_lock)

    def _forget_lock(self) -> None:
        self._lock = threading.Lock()

    def _open(self, pid: int) -> None:
        path = self._folder / f"{pid}.count"
        path.write_bytes(bytes(COUNTER.size))
        with path.open("r+b") as file:
            self._map = mmap.mmap(file.fileno(), COUNTER.size)
        self._latencies = (self._folder / f"{pid}.latency").open("ab", buffering=0)
        self._jobs, self._first_s, self._pid = 0, time.time(), pid

    def tick(self, enqueued_at_s: float = 0.0) -> None:
        """Count one job; with the time it was enqueued, keep how long it waited."""
        now_s = time.time()
        with self._lock:
            if self._pid != (pid := os.getpid()):
                self._open(pid)
            self._jobs += 1
            COUNTER.pack_into(self._map, 0, self._jobs, self._first_s, now_s)
        if enqueued_at_s:
            self._latencies.write(STAMP.pack(now_s - enqueued_at_s))


def clear(folder: Path) -> None:
    for path in (*folder.glob("*.count"), *folder.glob("*.latency")):
        path.unlink()


def read(folder: Path) -> Count:
    counts = [COUNTER.unpack(raw) for path in folder.glob("*.count") if (raw := path.read_bytes())]
    worked = [count for count in counts if count[0]]
    if not worked:
        return Count(0, 0.0, 0.0)
    jobs, firsts, lasts = zip(*worked, strict=True)
    return Count(sum(jobs), min(firsts), max(lasts))


def latencies_ms(folder: Path) -> list[float]:
    """How long jobs waited from the call that enqueued them to their start, shortest first."""
    raw = b"".join(path.read_bytes() for path in folder.glob("*.latency"))
    return sorted(wait_s * 1000 for (wait_s,) in STAMP.iter_unpack(raw))
