"""The OpenAPI file against the application behind its server: schemathesis, with all its checks.

It makes requests that fit the document and requests that do not, calls operations in the order
of their links, leaves tokens out and makes them up; each answer must be one that the document
names, of the shape that it names, and none may be a surprise (5xx). More: FUZZ_EXAMPLES=200.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from homing.engine.ops.verbs import BULK_VERBS
from homing.runtime.app import Homing
from homing.web.api.operations import API
from homing.web.application import Application, application
from tests.unit.web.conftest import OPEN, TOKENS
from tests.unit.web.served import Served, in_thread

EXAMPLES = os.environ.get("FUZZ_EXAMPLES", "3")
# A stream of events has no end to be waited for.
ENDLESS = "events"
# 404, 409 and 429 are about what is stored, not about the request.
CONFIG = """
cache.enabled = false
[checks]
positive_data_acceptance.expected-statuses = ["2xx", 404, 409, 429]
negative_data_rejection.expected-statuses = [400, 401, 403, 404, 405, 409, 413, 415, 422, 429, 431]
[dictionaries.known]
values = {known}
[parameters]
"path.delivery_id" = {{ dictionary = "known", probability = 0.7 }}
"""
# What no schema can say, by operation: that a cursor is one of ours, a time not after another and
# a text not blank, the grammar of addresses, the fields of an e-mail that belong together.
BEYOND_SCHEMAS = {
    400: ("list", "export", "search", "audit_log"),
    422: ("submit", "submit_batch", "send_test", "amend", *(f"{verb}_many" for verb in BULK_VERBS)),
}
OPERATION = """
[[operations]]
include-operation-id = "{name}"
checks.positive_data_acceptance.expected-statuses = ["2xx", 404, 409, 429, {status}]
"""


def config(known: list[str]) -> str:
    text = CONFIG.format(known=json.dumps(known))
    for status, names in BEYOND_SCHEMAS.items():
        text += "".join(OPERATION.format(name=name, status=status) for name in names)
    return text


@pytest.mark.parametrize(
    ("mode", "phases"),
    [("open", "examples,fuzzing,stateful"), ("tokens", "coverage,fuzzing")],
)
def test_nothing_is_found(mode: str, phases: str, tmp_path: Path) -> None:
    tokens: list[str] = []

    async def make() -> Application:
        homing = Homing("memory:", provider="stub:")
        if mode == "tokens":
            tokens.append(await homing.tokens.make("fuzz", "admin"))
        return application(homing, OPEN if mode == "open" else TOKENS)

    with in_thread(make) as served:
        headers = {"Authorization": f"Bearer {tokens[0]}"} if tokens else {}
        known = [deliver(served, name, **headers) for name in ("ok", "bounce", "down", "maybe")]
        command = [sys.executable, "-m", "schemathesis.cli", "--config-file", "fuzz.toml", "run"]
        command += ["openapi.json", "--url", served.url, "--checks", "all"]
        command += ["--phases", phases, "--max-examples", EXAMPLES]
        command += ["--no-color", "--exclude-operation-id", ENDLESS]
        for name, value in headers.items():
            command += ["--header", f"{name}: {value}"]
        # As the service describes itself, nothing changed.
        document = served.call("GET", f"{API}/openapi.json").body
        (tmp_path / "openapi.json").write_bytes(document)
        (tmp_path / "fuzz.toml").write_text(config(known))
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout[-9000:] + done.stderr[-2000:]
        assert " passed" in done.stdout
        assert served.call("GET", "/readyz").status == 200


def deliver(served: Served, name: str, **headers: str) -> str:
    """One of each kind, so that verbs meet what they can change."""
    body = {"to": [f"{name}@stub.test"], "subject": "Booked", "text": "See you"}
    headers["Idempotency-Key"] = f"known-{name}"
    answer = served.call("POST", "/api/v1/deliveries", body, headers)
    return str(answer.json()["delivery_id"])
