"""Worker processes: started, weighed and stopped by their own ids."""

import os
import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

STOP_S = 6.0


@dataclass(frozen=True, slots=True)
class Workers:
    """Running workers, with all the processes they forked."""

    started: tuple[subprocess.Popen[bytes], ...]
    log: Path

    def pids(self) -> list[int]:
        return [pid for process in self.started for pid in family(process.pid)]

    def rss_mb(self) -> float:
        return sum(map(rss_mb, self.pids()))

    def cpu_s(self) -> float:
        return sum(map(cpu_s, self.pids()))

    def demand_alive(self) -> None:
        """Raise with what a worker printed if it has ended."""
        for process in self.started:
            if process.poll() is not None:
                raise RuntimeError(f"worker ended: {self.log.read_text()[-800:]}")

    def stop(self) -> None:
        forked = self.pids()
        for process in self.started:
            process.terminate()
        for process in self.started:
            try:
                process.wait(STOP_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        for pid in forked:
            _kill(pid)


@contextmanager
def running(commands: Sequence[Sequence[str]], folder: Path) -> Iterator[Workers]:
    """Start one process per command; stop them, and what they forked, at the end."""
    path = folder / "worker.log"
    with path.open("wb") as log:
        started = tuple(
            subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=Path.cwd()
            )
            for command in commands
        )
    workers = Workers(started, path)
    try:
        yield workers
    finally:
        workers.stop()


def family(pid: int) -> list[int]:
    """A process and all below it; empty when it has gone."""
    try:
        threads = list(Path(f"/proc/{pid}/task").iterdir())
        forked = [
            child for thread in threads for child in (thread / "children").read_text().split()
        ]
    except OSError:
        return []
    return [pid, *(below for child in forked for below in family(int(child)))]


def rss_mb(pid: int) -> float:
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except OSError:
        return 0.0
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def cpu_s(pid: int) -> float:
    """What it has used so far, in user and system mode."""
    return sum(_cpu_s(pid)[:2])


def server_cpu_s(pid: int) -> float:
    """What a server and all its processes have used so far, those that have ended included."""
    return sum(_cpu_s(pid)) + sum(map(cpu_s, family(pid)[1:]))


def _cpu_s(pid: int) -> list[float]:
    """In user and system mode, by itself and by its children that have ended."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return [0.0] * 4
    fields = stat.rpartition(")")[2].split()  # the name before it may hold spaces
    return [int(ticks) / os.sysconf("SC_CLK_TCK") for ticks in fields[11:15]]


def _kill(pid: int) -> None:
    # The parent has ended and waited for it in the common case; what is left hangs.
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
