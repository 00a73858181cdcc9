"""Worker processes as a test sees them: orders go in, lines come out, signals hit hard.

Every wait is for a condition and has a bound; nothing here sleeps to let time pass. A process is
only ever signalled by its own handle.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.faults.traps import TRAPPED
from tests.faults.worker import Setup, setup_to_text

ROOT = Path(__file__).parents[2]
BOUND_S = 60.0
LOOK_EVERY_S = 0.01


class WorkerProcess:
    """One life. Start it inside `lives`, which ends whatever a failed test leaves behind."""

    def __init__(self, setup: Setup) -> None:
        self.setup = setup
        self.lines: list[str] = []
        self._news = threading.Condition()
        self._errors = (setup.folder / f"stderr-{time.monotonic_ns()}").open("w+")
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.faults.worker", setup_to_text(setup)],
            cwd=ROOT,
            env=os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            bufsize=1,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def acked(self) -> dict[str, str]:
        """What callers were told: the id for each key."""
        said = (line.split() for line in self.lines if line.startswith("acked "))
        return {key: delivery_id for _, key, delivery_id in said}

    def order(self, *words: object) -> None:
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # it may be dead: that is what it is for
            self._process.stdin.write(" ".join(map(str, words)) + "\n")
            self._process.stdin.flush()

    def until_said(self, start: str, *, times: int = 1) -> None:
        assert self.says(start, times=times), self._story(f"ended without saying {start!r}")

    def says(self, start: str, *, times: int = 1) -> bool:
        """Whether it comes to say so before it ends."""

        def has_said() -> bool:
            return sum(line.startswith(start) for line in self.lines) >= times

        with self._news:
            heard = self._news.wait_for(lambda: has_said() or self._is_mute, BOUND_S)
        assert heard, self._story(f"never said {start!r}")
        return has_said()

    def ready(self) -> WorkerProcess:
        self.until_said("ready")
        return self

    def kill(self) -> None:
        self._process.kill()
        self.until_dead()

    def stop(self) -> int:
        """SIGTERM, and wait for its graceful end; its exit code."""
        self._process.terminate()
        return self.until_dead()

    def freeze(self) -> None:
        """At any moment, maybe in the middle of a write: then nobody else can write either."""
        self._process.send_signal(signal.SIGSTOP)
        self._until_stopped()

    def freeze_between_writes(self) -> None:
        """It cannot have the file's lock in its hand: we have it."""
        lock = sqlite3.connect(self.setup.store, timeout=BOUND_S, isolation_level=None)
        try:
            lock.execute("begin immediate")
            self.freeze()
            lock.execute("rollback")
        finally:
            lock.close()

    def until_frozen(self) -> None:
        """It has come to its trap, and is frozen there."""
        self.until_said(TRAPPED)
        self.freeze_between_writes()

    def thaw(self) -> None:
        self._process.send_signal(signal.SIGCONT)

    def until_dead(self) -> int:
        try:
            code = self._process.wait(BOUND_S)
        except subprocess.TimeoutExpired:
            raise AssertionError(self._story("does not end")) from None
        self._reader.join(BOUND_S)  # its last words count too
        return code

    def _until_stopped(self) -> None:
        options = os.WSTOPPED | os.WEXITED | os.WNOHANG | os.WNOWAIT

        def is_frozen() -> bool:
            found = os.waitid(os.P_PID, self._process.pid, options)
            return found is not None and found.si_code == os.CLD_STOPPED

        until(is_frozen, lambda: self._story("does not stop"))

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None

    def close(self) -> None:
        if self.is_alive:
            self._process.kill()
        self.until_dead()
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        self._process.stdout.close()
        self._errors.close()

    @property
    def _is_mute(self) -> bool:
        return not self._reader.is_alive()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            with self._news:
                if line.endswith("\n"):
                    self.lines.append(line.strip())
                self._news.notify_all()
        # Whoever waits looks at this thread to see that no more will come.
        threading.Thread(target=self._tell_end, daemon=True).start()

    def _tell_end(self) -> None:
        self._reader.join()
        with self._news:
            self._news.notify_all()

    def _story(self, what: str) -> str:
        self._errors.seek(0)
        return f"the worker {what}; it said {self.lines[-5:]} and complained {self._errors.read()}"


@contextlib.contextmanager
def lives() -> Iterator[Callable[[Setup], WorkerProcess]]:
    """Gives a function that starts processes, and ends them all."""
    started: list[WorkerProcess] = []

    def start(setup: Setup) -> WorkerProcess:
        process = WorkerProcess(setup)
        started.append(process)
        return process

    try:
        yield start
    finally:
        for process in started:
            process.close()


def until(is_so: Callable[[], bool], story: Callable[[], str]) -> None:
    deadline_s = time.monotonic() + BOUND_S
    while not is_so():
        assert time.monotonic() < deadline_s, story()
        time.sleep(LOOK_EVERY_S)
