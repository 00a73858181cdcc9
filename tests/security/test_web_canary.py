"""T11, I23: what callers write stays out of logs, error answers, events and metrics."""

from __future__ import annotations

import socket
from pathlib import Path

from tests.unit.web.served import Served, homing_serve

CANARY = "canary7f3a"
ADDRESS = f"{CANARY}@stub.test"
TOKEN = f"hmg_{'0' * 40}{CANARY}"


def mishaps(served: Served) -> list[bytes]:
    """Everything that can go wrong, with the canary wherever a caller may write."""
    whole = {
        "to": [f"{CANARY} <{ADDRESS}>"],
        "subject": CANARY,
        "text": CANARY,
        "html": CANARY,
        "metadata": {CANARY: CANARY},
        "headers": {"X-Canary": CANARY},
        "attachments": [{"filename": CANARY, "content_base64": "Y2FuYXJ5N2YzYQ=="}],
        "source": CANARY,
    }
    wrong: list[dict[str, object]] = [
        {"to": [f"{CANARY} no address"]},
        {"to": [CANARY + "\n"]},
        {"subject": CANARY + "\r\n"},
        {"from": ADDRESS},
        {"headers": {"X": CANARY + "\n"}},
        {"metadata": {"a": 7}},
        {"template_id": CANARY, "subject": "", "text": "", "html": None, "attachments": []},
        {"locale": CANARY},
        {"route": CANARY},
        {"expires_at": "2020-01-31T08:00:00Z"},
        {"text": CANARY * 200_000},
    ]
    answers = [served.post(CANARY, **whole)]
    answers += [served.post(f"{CANARY}{n}", **{**whole, **one}) for n, one in enumerate(wrong)]
    answers.append(served.post(CANARY, **{**whole, "subject": "another"}))
    key = {"Idempotency-Key": CANARY}
    bodies = (CANARY.encode(), b'{"to":"' + CANARY.encode() + b'"', b'{"a":1,"a":"canary7f3a"}')
    answers += [served.call("POST", "/api/v1/deliveries", body, key) for body in bodies]
    answers += [
        served.call("GET", f"/api/v1/deliveries/{CANARY}"),
        served.call("GET", f"/api/v1/deliveries?status={CANARY}"),
        served.call("GET", f"/api/v1/deliveries?cursor={CANARY}"),
        served.call("GET", f"/{CANARY}"),
        served.call(CANARY.upper(), f"/{CANARY}"),
        served.call("GET", "/", headers={"Host": f"{CANARY}.example"}),
        served.call("GET", "/", headers={"Origin": f"http://{CANARY}.example"}),
        served.call("GET", "/", headers={"Authorization": f"Bearer {TOKEN}"}),
        served.call("POST", f"/api/v1/deliveries/{CANARY}/replay", {"actor": CANARY + "\n"}),
        served.call("GET", "/metrics"),
        served.call("GET", "/"),
    ]
    with served.connect() as line:
        line.sendall(b"GET /%b HTTP/1.1 %b\r\n\r\n" % (CANARY.encode(), CANARY.encode()))
        garbage = b"".join(iter(lambda: line.recv(65536), b""))
    return [answer.body for answer in answers] + [garbage]


def test_no_mishap_repeats_what_was_sent(tmp_path: Path) -> None:
    settings = {
        "store": f"sqlite:///{tmp_path / 'homing.db'}",
        "log__level": "debug",
        "log__format": "json",
        "log__alert_file": str(tmp_path / "ALERT.log"),
        "routes__mail__max_attempts": "1",
    }
    with homing_serve(tmp_path, **settings) as served:
        ear = served.connect()
        ear.sendall(b"GET /api/v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n")
        for body in mishaps(served):
            assert CANARY.encode() not in body, body[:300]
        served.post("bounce", to=["bounce@stub.test"], subject=CANARY, text=CANARY)
        _overwhelm(served)
        heard = _all_of(ear)
    assert b'"state":"failed"' in heard
    assert CANARY.encode() not in heard
    log = (tmp_path / "serve.log").read_text()
    assert "failed" in log
    assert CANARY not in log
    assert "stub.test" not in log
    assert CANARY not in (tmp_path / "ALERT.log").read_text()


def _overwhelm(served: Served) -> None:
    """Clients that break off in the middle are no reason to write about them."""
    for _ in range(5):
        with served.connect() as line:
            line.sendall(b"POST /api/v1/deliveries HTTP/1.1\r\nHost: localhost\r\n")
            line.sendall(b"Content-Type: application/json\r\nIdempotency-Key: k\r\n")
            line.sendall(b"Content-Length: 999\r\n\r\n" + CANARY.encode())


def _all_of(ear: socket.socket) -> bytes:
    heard = b""
    ear.settimeout(1.0)
    try:
        while b'"state":"failed"' not in heard and (piece := ear.recv(65536)):
            heard += piece
    except TimeoutError:
        pass
    ear.close()
    return heard
