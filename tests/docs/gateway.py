"""A fake gateway for text messages on loopback. What it accepted is the ledger of the tests."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Gateway(ThreadingHTTPServer):
    """Answers by the script first; then every text is accepted, but for numbers ending in 000."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.script: list[int] = []
        self.accepted: list[dict[str, Any]] = []
        self.tokens: list[str] = []
        self.lock = threading.Lock()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/texts"

    def answer(self, body: dict[str, Any], token: str) -> int:
        with self.lock:
            self.tokens.append(token)
            if self.script:
                return self.script.pop(0)
            if str(body["to"]).endswith("000"):
                return 400
            self.accepted.append(body)
            return 201


class Handler(BaseHTTPRequestHandler):
    server: Gateway

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        status = self.server.answer(body, self.headers["Idempotency-Key"])
        self._say(status, {"id": f"text-{len(self.server.accepted)}"})

    def do_GET(self) -> None:
        self._say(200, {})

    def _say(self, status: int, value: dict[str, str]) -> None:
        data = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the library's name
        """The tests read the ledger, not a log."""


@contextmanager
def gateway() -> Iterator[Gateway]:
    with Gateway() as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
