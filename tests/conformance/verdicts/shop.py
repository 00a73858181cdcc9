"""The programs of verdict mails as real processes: files in a folder, a fake of Graph, a clock
that runs many times as fast."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx2

from homing_systems.verdicts import stripe
from tests.conformance.verdicts.office import SECRET, body, completed
from tests.unit.cli.programs import Program, free_port, run_with, started, until

ENV = """GRAPH_TENANT_ID=contoso
GRAPH_CLIENT_ID=client-1
GRAPH_SENDER=oracle@example.org
GRAPH_REFRESH_TOKEN=first-refresh-token
OTHER="kept as it is"
"""


class Shop:
    """What one test starts; all of it ends with the test."""

    def __init__(self, folder: Path, stack: ExitStack, time_scale: float) -> None:
        self.folder = folder
        self._stack = stack
        self.graph_port, self.port, self.webhook_port = free_port(), free_port(), free_port()
        (folder / ".env").write_text(ENV)
        (folder / ".env").chmod(0o600)
        graph = f"http://127.0.0.1:{self.graph_port}"
        self.settings = {
            "EMAIL_RETRY_QUEUE_PATH": str(folder / "queue.jsonl"),
            "EMAIL_DEAD_LETTER_PATH": str(folder / "dead.jsonl"),
            "EMAIL_DELIVERY_LOG_PATH": str(folder / "delivery.log"),
            "EMAIL_ALERT_LOG_PATH": str(folder / "ALERT.log"),
            "EMAIL_SERVICE_URL": f"http://127.0.0.1:{self.port}",
            "GRAPH_ENV_FILE": str(folder / ".env"),
            "GRAPH_API_URL": f"{graph}/v1.0",
            "GRAPH_LOGIN_URL": graph,
            "STRIPE_WEBHOOK_SECRET": SECRET,
            "HOMING_TIME_SCALE": str(time_scale),
        }

    def start(self, *words: str, ready: str) -> Program:
        """Once it has said that it is ready."""
        return self._started(("-m", "homing", *words), ready)

    def _started(self, command: tuple[str, ...], ready: str) -> Program:
        program = self._stack.enter_context(started(self.folder, command, **self.settings))

        def is_ready() -> bool:
            assert program.process.poll() is None, program.said()
            return ready in program.said()

        until(is_ready, what=" ".join(command))
        return program

    def run(self, *words: str, code: int = 0) -> str:
        """One command to its end; what it has printed."""
        done = run_with(self.settings, self.folder, *words, code=code)
        return done.stdout + done.stderr

    def graph(self, *words: str) -> Program:
        place = ("--port", str(self.graph_port), "--state", str(self.folder / "graph"))
        command = ("-m", "homing_systems.mock_graph", *place, *words)
        return self._started(command, "mock-graph: http")

    def serve(self, *words: str) -> Program:
        return self._listening("serve", self.port, *words)

    def webhook(self, *words: str) -> Program:
        return self._listening("webhook", self.webhook_port, *words)

    def _listening(self, name: str, port: int, *words: str) -> Program:
        program = self.start("verdicts", name, "--port", str(port), *words, ready="Verdicts on")
        until(lambda: _answers(port), what=name)
        return program

    def worker(self) -> Program:
        return self.start("verdicts", "worker", ready="worker is running")

    def post(self, port: int | None = None, **changes: Any) -> httpx2.Response:
        url = f"http://127.0.0.1:{port or self.port}/send-verdict-email"
        return httpx2.post(url, content=body(**changes), timeout=30)

    def tell(self, **changes: Any) -> httpx2.Response:
        event, at_s = completed(**changes), int(time.time())
        header = f"t={at_s},v1={stripe.signature(event, SECRET, at_s)}"
        url = f"http://127.0.0.1:{self.webhook_port}/webhook"
        return httpx2.post(url, content=event, headers={"Stripe-Signature": header}, timeout=30)

    def ledger(self, address: str = "ann@example.org") -> list[dict[str, Any]]:
        """The mails to this address that Graph has accepted."""
        return [mail for mail in self._asked("_ledger") if address in str(mail)]

    def sends(self, address: str = "ann@example.org") -> list[int]:
        """The answers to the calls that were to send to this address."""
        calls = [call for call in self._asked("_calls") if call["path"].endswith("/sendMail")]
        return [call["status"] for call in calls if address in str(call)]

    def _asked(self, name: str) -> list[dict[str, Any]]:
        answer = httpx2.get(f"http://127.0.0.1:{self.graph_port}/{name}", timeout=30)
        found: list[dict[str, Any]] = answer.json()
        return found

    def text(self, name: str) -> list[str]:
        path = self.folder / name
        return path.read_text().split("\n")[:-1] if path.exists() else []

    def queue(self, session_id: str = "cs_1") -> list[dict[str, Any]]:
        found = [json.loads(line) for line in self.text("queue.jsonl")]
        return [line for line in found if line["session_id"] == session_id]

    def lines(self, name: str, session_id: str = "cs_1") -> list[str]:
        """Of a log, those of this session."""
        return [line for line in self.text(name) if f"{session_id} " in line]

    def dead_letters(self, session_id: str = "cs_1") -> list[dict[str, Any]]:
        found = [json.loads(line) for line in self.text("dead.jsonl")]
        return [line for line in found if line["session_id"] == session_id]

    def status(self, session_id: str = "cs_1") -> str:
        """That of its last line."""
        lines = self.queue(session_id)
        return lines[-1]["status"] if lines else ""

    def until_status(self, word: str, session_id: str = "cs_1", within_s: float = 60.0) -> None:
        until(lambda: self.status(session_id) == word, within_s, f"{session_id} {word}")


def _answers(port: int) -> bool:
    try:
        httpx2.get(f"http://127.0.0.1:{port}/", timeout=30)
    except httpx2.TransportError:
        return False
    return True


@contextmanager
def shop(folder: Path, *, time_scale: float = 1.0) -> Iterator[Shop]:
    with ExitStack() as stack:
        yield Shop(folder, stack, time_scale)
