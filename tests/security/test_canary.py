"""I23, T11: what customers write and what opens doors appears in no log, metric, page or report.

A real `homing serve` is fed with canaries in every field, credential and variable, through
success, refusal, doubt, route fault and crash; then all that it wrote and all that the readers
print is searched. Addresses, keys, sources and metadata may be seen where an operator asks for
deliveries, nowhere else.
"""

import base64
import re
import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2
import pytest

from tests.unit.cli.conftest import Cli, cli
from tests.unit.cli.programs import Served, free_port, serving, until

__all__ = ["cli"]

CANARY = re.compile(r"(?i)ca[-_]?nary[-_]?\w*")
# Crashes as libraries do: with all that they were given in their words.
LAUNCH = """
import sys
from homing.cli import main
from homing.providers.stub import StubProvider
leave = StubProvider.leave
def crashing(self, envelope):
    if any(address.startswith("crash@") for address in envelope.recipients):
        raise RuntimeError(f"cannot send {envelope.data!r} to {envelope.recipients}")
    leave(self, envelope)
StubProvider.leave = crashing
sys.argv[0] = "homing"
main()
"""
# The stub's behaviour for each fate, and the state in which it ends.
FATES = {
    "ok": "delivered",
    "bounce": "failed",
    "maybe": "failed",
    "crash": "failed",
    "auth": "failed",
}
HEADERS = {"Authorization": "Bearer hmg_canary_token"}


def mail(name: str) -> dict[str, object]:
    """Canaries in every field that a caller can fill."""
    return {
        "to": [f"{name}@stub.test", "Canary Name <canary-to@example.org>"],
        "cc": ["canary-cc@example.org"],
        "bcc": ["canary-bcc@example.org"],
        "reply_to": ["canary-reply@example.org"],
        "subject": "canary-subject",
        "text": "canary-text",
        "html": "<p>canary-html</p>",
        "headers": {"X-Campaign": "canary-header"},
        "attachments": [
            {
                "filename": "canary-file.txt",
                "content_type": "text/plain",
                "content_base64": base64.b64encode(b"canary-content").decode(),
            }
        ],
        "source": "canary-source",
        "metadata": {"order": "canary-metadata"},
    }


def templated(variables: dict[str, str]) -> dict[str, object]:
    return {
        "to": ["ok@stub.test"],
        "template_id": "code",
        "variables": variables,
        "subject": "",
        "text": "",
    }


@pytest.fixture
def settings(tmp_path: Path) -> dict[str, str]:
    parts = tmp_path / "templates" / "code" / "en"
    parts.mkdir(parents=True)
    (parts / "subject.tmpl").write_text("Your code {{ code }}")
    (parts / "text.tmpl").write_text("{{ name }}: {{ code }}")
    secret = tmp_path / "dsn"
    secret.write_text(f"http://canarydsn@127.0.0.1:{free_port()}/1")
    secret.chmod(0o600)
    return {
        "HOMING_LOG__LEVEL": "debug",
        "HOMING_LOG__FORMAT": "json",
        "HOMING_LOG__ALERT_FILE": "alerts",
        "HOMING_LOG__DELIVERY_FILE": "deliveries",
        "HOMING_TEMPLATES": str(tmp_path / "templates"),
        "HOMING_TELEMETRY__SENTRY_DSN_FILE": str(secret),
        "HOMING_ROUTES__MAIL__MAX_ATTEMPTS": "1",
        "HOMING_ROUTES__MAIL__ON_UNKNOWN": "hold",
        "HOMING_ROUTES__MAIL__ON_ROUTE_FAULT": "fail",
    }


def errors_of(served: Served) -> str:
    """Answers to requests that are wrong in every way, with canaries in them."""
    good = mail("ok")
    bodies: list[tuple[str, object]] = [
        ("canary-key-ok", {**good, "subject": "canary-other"}),
        ("e-1", {**good, "to": ["canary to nobody"]}),
        ("e-2", {**good, "subject": {"canary": "canary-deep"}}),
        ("e-3", {**good, "from": "canary-from@example.org"}),
        ("e-4", {**good, "headers": {"Bcc": "canary-injected@example.org"}}),
        ("e-5", {**good, "subject": "canary\r\nBcc: canary@example.org"}),
        ("e-6", templated({"code": "canary-code"}) | {"template_id": "none"}),
        ("e-7", {**good, "attachments": [{"filename": "x", "content_base64": "canary!"}]}),
    ]
    pages = []
    for key, body in bodies:
        answer = httpx2.post(
            f"{served.url}/api/v1/deliveries",
            json=body,
            headers={**HEADERS, "Idempotency-Key": key},
        )
        assert 400 <= answer.status_code < 500, answer.text
        pages.append(answer.text)
    broken = httpx2.post(
        f"{served.url}/api/v1/deliveries",
        content=b'{"to": ["canary@example.org"], "subject": "canary',
        headers={**HEADERS, "Idempotency-Key": "e-8", "Content-Type": "application/json"},
    )
    return "\n".join([*pages, broken.text])


def test_nothing_planted_leaves_the_store(
    tmp_path: Path, settings: dict[str, str], cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving(tmp_path, command=("-c", LAUNCH), **settings) as served:
        ids = {name: served.post(f"canary-key-{name}", **mail(name)) for name in FATES}
        good = served.post("t-1", **templated({"name": "canary-name", "code": "canary-code"}))
        bad = served.post("t-2", **templated({"name": "canary-name"}))
        for name, state in FATES.items():
            served.ends_as(ids[name], state)
        served.ends_as(good, "delivered")
        served.ends_as(bad, "failed")
        until(lambda: (tmp_path / "deliveries").exists() and (tmp_path / "alerts").exists())
        errors = errors_of(served)
        metrics = served.get("/metrics").text
        status = served.get("/").text
        stats = served.get("/api/v1/stats").text + served.get("/api/v1/failures").text
        shown = [served.get(f"/api/v1/deliveries/{each}").text for each in ids.values()]
        shown += [served.get(f"/api/v1/deliveries/{each}/why").text for each in ids.values()]
        tried = [served.get(f"/api/v1/deliveries/{each}/attempts").text for each in ids.values()]
        served.stop()
        log = served.said()
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    quiet = [
        cli(*words.split(), code=code)
        for words, code in (
            ("status", 0),
            ("status --json", 0),
            ("health", 1),
            ("doctor --json", 0),
            ("config show", 0),
            ("token list", 0),
            ("plan --outage 1h", 0),
            ("failures", 0),
            ("watch --count 1", 0),
            ("cancel --all --dry-run --json", 0),
            ("migrate --dry-run", 0),
            *((f"attempts {each} --json", 0) for each in ids.values()),
            (f"show {bad} --json", 0),
            (f"why {bad}", 0),
        )
    ]
    asked = [
        cli(*words.split())
        for words in ("list", "list --json", "list --state failed", "why canary-to@example.org")
    ]
    # Who asks for one delivery by its id is told its subject; no list does.
    whole = [cli("show", each, "--json").out for each in ids.values()]
    assert any("canary-subject" in text for text in whole)

    silent = {
        "log": log,
        "alerts": (tmp_path / "alerts").read_text(),
        "deliveries": (tmp_path / "deliveries").read_text(),
        "metrics": metrics,
        "status page": status,
        "stats": stats,
        "error pages": errors,
        "attempts": "\n".join(tried),
        "readers": "\n".join(done.out + done.err for done in quiet),
    }
    assert {place: hits for place, text in silent.items() if (hits := CANARY.findall(text))} == {}
    assert "RuntimeError" in "\n".join(tried)
    assert log.count('"state":"failed"') >= 4
    whole = [text.replace("canary-subject", "") for text in whole]
    for text in (*shown, *whole, *(done.out + done.err for done in asked)):
        allowed = r"(?i)canary-(to|cc|bcc)@example\.org|canary-(key-\w+|source|metadata)"
        assert CANARY.findall(re.sub(allowed, "", text)) == []


def test_credentials_of_a_provider_are_shown_by_nobody(
    tmp_path: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = {
        "HOMING_PROVIDER": f"smtp://canaryuser:canarypass@127.0.0.1:{free_port()}",
        "HOMING_SENDER": "shop@example.org",
        "HOMING_LOG__LEVEL": "debug",
        "HOMING_ROUTES__MAIL__MAX_ATTEMPTS": "1",
    }
    with serving(tmp_path, **settings) as served:
        letter = served.post("k", to=["ann@example.org"])
        served.ends_as(letter, "failed")
        served.stop()
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    texts = [served.said()]
    for words, code in (("config show", 0), ("doctor", 1), (f"why {letter}", 0), ("failures", 0)):
        done = cli(*words.split(), code=code)
        texts += [done.out, done.err]

    assert CANARY.findall("\n".join(texts)) == []
    assert "smtp://***@127.0.0.1" in served.said()


class Echo(socketserver.StreamRequestHandler):
    """A mail server that refuses every login and repeats it, in the clear and as it was sent."""

    def handle(self) -> None:
        self.wfile.write(b"220 echo\r\n")
        for line in self.rfile:
            if line.startswith(b"AUTH PLAIN "):
                sent = line.split()[2]
                _, user, password = base64.b64decode(sent).split(b"\0")
                refusal = b"535 5.7.8 %b may not use %b (%b)\r\n" % (user, password, sent)
                self.wfile.write(refusal)
            else:
                self.wfile.write(b"250-echo\r\n250 AUTH PLAIN\r\n")


@contextmanager
def echo_server() -> Iterator[int]:
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Echo) as server:
        server.daemon_threads = True
        serving_thread = threading.Thread(
            target=server.serve_forever, kwargs={"poll_interval": 0.05}
        )
        serving_thread.start()
        try:
            yield server.server_address[1]
        finally:
            server.shutdown()
            serving_thread.join()


@pytest.mark.parametrize("on_route_fault", ["pause", "fail"])
def test_a_password_that_a_server_repeats_is_kept_nowhere(
    tmp_path: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch, on_route_fault: str
) -> None:
    """Neither in a dead letter, nor in the fact of a paused route, nor in what is shown of it."""
    with echo_server() as port:
        settings = {
            "HOMING_PROVIDER": f"smtp://shop:canary%2Fpass@127.0.0.1:{port}?tls=none",
            "HOMING_SENDER": "shop@example.org",
            "HOMING_LOG__LEVEL": "debug",
            "HOMING_LOG__ALERT_FILE": "alerts",
            "HOMING_ROUTES__MAIL__ON_ROUTE_FAULT": on_route_fault,
        }
        with serving(tmp_path, **settings) as served:
            letter = served.post("k", to=["ann@example.org"])
            tried = f"/api/v1/deliveries/{letter}/attempts"
            until(lambda: "auth_failed" in served.get(tried).text)
            until((tmp_path / "alerts").exists)
            pages = [served.get(path).text for path in (tried, "/", "/api/v1/failures", "/readyz")]
            served.stop()
        for name, value in settings.items():
            monkeypatch.setenv(name, value)
        shown = [cli("why", letter), cli("doctor", code=1), cli("status"), cli("list", "--json")]
    texts = [served.said(), (tmp_path / "alerts").read_text(), *pages]
    texts += [done.out + done.err for done in shown]
    assert "may not use [redacted]" in pages[0]

    password = b"canary/pass"
    spellings = [password, base64.b64encode(b"\0shop\0" + password), b"canary%2Fpass"]
    kept = [file.read_bytes() for file in tmp_path.iterdir() if file.is_file()]
    for spelling in spellings:
        assert spelling.decode() not in "\n".join(texts)
        assert not any(spelling in data for data in kept)
