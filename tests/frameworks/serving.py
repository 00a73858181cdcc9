"""The examples, served by real servers in processes of their own."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from homing.providers.stub import read_ledger
from tests.servers import HOST, free_port

EXAMPLES = Path(__file__).parents[2] / "examples"
BOUND_S = 60.0
LOOK_EVERY_S = 0.02
# What Python and Homing say of a process that did not end in order.
BAD_ENDS = ("Exception ignored", "was destroyed", "never awaited", "in order", "did not start")


class Site:
    """A copy of an example in a folder of its own, with a stub that notes what it sends."""

    def __init__(self, folder: Path, example: str | Path) -> None:
        self.folder = folder
        self.port = free_port()
        source = EXAMPLES / example
        if source.is_dir():
            shutil.copytree(source, folder, dirs_exist_ok=True)
        else:
            shutil.copy(source, folder)
        self._sent = folder / "sent"
        self.environment = os.environ | {
            "HOMING_PROVIDER": f"stub:?ledger={self._sent}",
            "PYTHONPATH": str(folder),
            "HOME": str(folder),  # Gunicorn keeps a socket there
        }

    def run(self, *arguments: str, code: int = 0) -> str:
        """A command of the example, to its end; what it said."""
        ended = subprocess.run(
            [sys.executable, *arguments],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=BOUND_S,
            check=False,
        )
        assert ended.returncode == code, ended.stdout + ended.stderr
        return ended.stdout + ended.stderr

    @contextmanager
    def running(self, *arguments: str, answers: bool = True, **variables: str) -> Iterator[int]:
        """A server or worker, as a module of Python; ended by SIGTERM, and well."""
        log = self.folder / f"log-{time.monotonic_ns()}"
        with log.open("wb") as output:
            process = subprocess.Popen(
                [sys.executable, *arguments],
                cwd=self.folder,
                env=self.environment | variables,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        try:
            if answers:
                self._until_it_answers(process, log)
            yield process.pid
            process.terminate()
            code = process.wait(BOUND_S)
            assert code in (0, -signal.SIGTERM), log.read_text()
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)  # the server and its workers: our session
                process.wait()
        said = log.read_text()
        assert not [word for word in BAD_ENDS if word in said], said

    def post(self, path: str, **form: str) -> int:
        """The status of the answer. The form goes into the query too, for FastAPI."""
        data = urllib.parse.urlencode(form)
        request = urllib.request.Request(
            f"http://{HOST}:{self.port}{path}?{data}", data.encode(), method="POST"
        )
        try:
            with urllib.request.urlopen(request, timeout=BOUND_S) as answer:
                status: int = answer.status
        except urllib.error.HTTPError as error:
            error.close()
            return error.code
        return status

    def until_sent(self, *names: str) -> None:
        """These have got their mail, each once, and nobody else has got any."""
        deadline = time.monotonic() + BOUND_S
        while not set(names) <= self.sent().keys():
            assert time.monotonic() < deadline, f"only {self.sent()} got mail"
            time.sleep(LOOK_EVERY_S)
        assert self.sent() == Counter(names)

    def sent(self) -> Counter[str]:
        entries = read_ledger(self._sent)
        return Counter(name.split("@")[0] for entry in entries for name in entry.recipients)

    def _until_it_answers(self, process: subprocess.Popen[bytes], log: Path) -> None:
        deadline = time.monotonic() + BOUND_S
        while True:
            try:
                self.post("/")
            except OSError:
                assert process.poll() is None, log.read_text()
                assert time.monotonic() < deadline, log.read_text()
                time.sleep(LOOK_EVERY_S)
            else:
                return
