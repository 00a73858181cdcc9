"""VER-01 to VER-07 from outside: real processes, real files, a fake of Graph on loopback.

One service and one worker serve most of the tests; each test has a session and an address of its
own, for which the fake has a script.
"""

from __future__ import annotations

import signal
import stat
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.verdicts.office import ODD_JSON
from tests.conformance.verdicts.shop import Shop, shop
from tests.unit.cli.programs import until

# 2 h 35 min pass in 5 s.
FAST = 2000.0
SCRIPTS = {
    "ver02": "503,503,503,202",
    "ver03": ",".join(["503"] * 9),
    "ver04a": "400",
    "ver04b": "403",
    "ver05": "429:120,202",
    "ver06": "401,202",
    "ver07": "503,503,503,503,202",
}


@pytest.fixture(scope="module")
def busy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    with shop(tmp_path_factory.mktemp("busy"), time_scale=FAST) as it:
        words = [f"--recipient={name}@example.org={script}" for name, script in SCRIPTS.items()]
        it.graph(*words)
        it.worker()
        it.serve()
        yield it


def post(it: Shop, name: str, port: int | None = None) -> Any:
    return it.post(port, session_id=name, customer_email=f"{name}@example.org")


def seconds_between(earlier: str, later: str) -> float:
    return (datetime.fromisoformat(later) - datetime.fromisoformat(earlier)).total_seconds()


def path_of(lines: list[dict[str, Any]]) -> list[str]:
    words = [line["status"] for line in lines]
    return [word for number, word in enumerate(words) if number == 0 or words[number - 1] != word]


def test_ver_01_a_session_told_many_times_is_one_mail(busy: Shop) -> None:
    """O-061, O-078, O-113: over two services and a worker, all at once."""
    first, busy.port = busy.port, busy.webhook_port
    second = busy.serve()
    ports = [first, busy.port] * 25
    with ThreadPoolExecutor(len(ports)) as pool:
        answers = list(pool.map(lambda port: post(busy, "ver01", port), ports))
    busy.until_status("DELIVERED", "ver01")
    second.stop()
    busy.port = first
    until(lambda: busy.lines("delivery.log", "ver01"), what="the delivery log")

    assert {answer.status_code for answer in answers} <= {200, 202}
    assert len(busy.ledger("ver01@example.org")) == 1
    assert busy.sends("ver01@example.org") == [202]
    assert len(busy.lines("delivery.log", "ver01")) == 1
    assert len({line["retry_id"] for line in busy.queue("ver01")}) == 1


def test_ver_02_the_third_retry_delivers(busy: Shop) -> None:
    """O-081, O-082, O-083: each waits for its step of the ladder, from the failure on."""
    answer = post(busy, "ver02")
    busy.until_status("DELIVERED", "ver02")
    until(lambda: busy.lines("delivery.log", "ver02"), what="the delivery log")

    assert answer.status_code == 202
    assert busy.sends("ver02@example.org") == [503, 503, 503, 202]
    [mail] = busy.ledger("ver02@example.org")
    assert mail["body"].strip() == ODD_JSON
    lines = busy.queue("ver02")
    assert path_of(lines) == ["PENDING", "RETRYING", "DELIVERED"]
    tried_at = sorted({line["last_attempt_at"] for line in lines if line["last_attempt_at"]})
    waits_s = [seconds_between(one, two) for one, two in pairwise(tried_at)]
    assert waits_s[-2] >= 300
    assert waits_s[-1] >= 1800
    [logged] = busy.lines("delivery.log", "ver02")
    assert logged.endswith("session=ver02 to=ver02@example.org tier=full attempt=3")
    assert seconds_between(lines[0]["created_at"], logged.split()[0]) >= 2100


def test_ver_03_after_four_retries_it_is_dead_and_told(busy: Shop) -> None:
    """O-085, O-086, O-087"""
    retry_id = post(busy, "ver03").json()["retry_id"]
    busy.until_status("DEAD", "ver03")
    until(lambda: busy.dead_letters("ver03"), what="the dead letter")
    until(lambda: busy.lines("ALERT.log", "ver03"), what="the alert")

    assert busy.sends("ver03@example.org") == [503] * 5
    [letter] = busy.dead_letters("ver03")
    assert (letter["retry_id"], letter["status"]) == (retry_id, "DEAD")
    assert letter["error_codes"] == [503] * 5
    [alert] = busy.lines("ALERT.log", "ver03")
    assert alert == (
        "[ALERT][oracle-email-retry] DEAD LETTER: session_id=ver03"
        " customer=ver03@example.org tier=full attempts=4 last_error=503"
    )
    assert path_of(busy.queue("ver03")) == ["PENDING", "RETRYING", "DEAD"]
    assert post(busy, "ver03").json() == {"outcome": "dead", "retry_id": retry_id}
    assert len(busy.sends("ver03@example.org")) == 5


@pytest.mark.parametrize(("name", "code"), [("ver04a", 400), ("ver04b", 403)])
def test_ver_04_an_abort_is_dead_at_once(busy: Shop, name: str, code: int) -> None:
    """O-089, O-090, O-091: all is written when the caller is answered."""
    answer = post(busy, name)

    assert answer.json()["outcome"] == "dead"
    assert busy.sends(f"{name}@example.org") == [code]
    assert path_of(busy.queue(name)) == ["PENDING", "DEAD"]
    [letter] = busy.dead_letters(name)
    assert letter["error_codes"] == [code]
    [alert] = busy.lines("ALERT.log", name)
    assert alert.endswith(f"attempts=0 last_error={code}")


def test_ver_05_a_rate_limit_is_obeyed(busy: Shop) -> None:
    """O-028, O-093: also by the retry that would follow at once."""
    answer = post(busy, "ver05")
    busy.until_status("DELIVERED", "ver05")

    assert answer.status_code == 202
    lines = busy.queue("ver05")
    waiting = next(line for line in lines if line["last_error_code"] == 429)
    assert seconds_between(waiting["last_attempt_at"], waiting["next_attempt_at"]) >= 120
    assert seconds_between(waiting["last_attempt_at"], lines[-1]["last_attempt_at"]) >= 120
    assert busy.sends("ver05@example.org") == [429, 202]


def test_ver_06_a_refused_token_is_renewed_within_the_attempt(busy: Shop) -> None:
    """O-094, O-095, O-069"""
    answer = post(busy, "ver06")

    assert answer.json() == {"outcome": "sent"}
    assert busy.lines("delivery.log", "ver06")[0].endswith("attempt=0")
    assert busy.sends("ver06@example.org") == [401, 202]
    env = (busy.folder / ".env").read_text()
    assert "first-refresh-token" not in env
    assert 'OTHER="kept as it is"\n' in env


def test_ver_07_the_verdict_is_the_same_bytes_on_every_attempt(busy: Shop) -> None:
    """O-096, O-067, O-133: in the queue too; nobody but Graph is called."""
    post(busy, "ver07")
    busy.until_status("DELIVERED", "ver07")

    [mail] = busy.ledger("ver07@example.org")
    assert mail["body"].strip() == ODD_JSON
    lines = [line for line in busy.text("queue.jsonl") if '"session_id":"ver07"' in line]
    assert lines == [line for line in lines if f'"verdict":{ODD_JSON},' in line]
    assert len(busy.sends("ver07@example.org")) == 5


def test_files_are_for_their_owner_alone(busy: Shop) -> None:
    """O-132, O-043"""
    post(busy, "mode")
    for name in ("queue.jsonl", "delivery.log", "ALERT.log"):
        if (busy.folder / name).exists():
            assert stat.S_IMODE((busy.folder / name).stat().st_mode) == 0o600, name


def test_a_killed_service_loses_nothing(tmp_path: Path) -> None:
    """O-118, O-121, O-117: a worker takes over what it was sending, and the mail says so."""
    with shop(tmp_path) as it:
        it.graph("--latency-ms", "1500", "--token-script", "200")
        service = it.serve()
        assert "WORKER ABSENT" in it.text("ALERT.log")[0]
        with ThreadPoolExecutor(1) as pool:
            asked = pool.submit(it.post)
            until(lambda: any('"committing":true' in line for line in it.text("queue.jsonl")))
            service.stop(signal.SIGKILL)
            assert asked.exception() is not None
        it.worker()
        it.until_status("DELIVERED")
        until(lambda: it.text("delivery.log"), what="the delivery log")

        assert it.ledger()[-1]["body"].startswith(ODD_JSON)
        assert len(it.text("delivery.log")) == 1


def test_a_token_that_cannot_be_stored_is_alerted_and_one_that_is_revoked_is_named(
    tmp_path: Path,
) -> None:
    """O-070, O-107, O-108"""
    with shop(tmp_path) as it:
        it.graph("--token-script", "200,revoked", "--token-life-s", "1")
        (tmp_path / ".env.new").mkdir()
        service = it.serve()
        sent = it.post()
        assert sent.json() == {"outcome": "sent"}
        assert "HTTP Request" not in service.said()  # one line of our own for each send
        assert "first-refresh-token" in (tmp_path / ".env").read_text()
        until(lambda: any("could not be stored" in line for line in it.text("ALERT.log")))

        dead = until(
            lambda: (answer := _next(it)).json()["outcome"] == "dead" and answer, what="revoked"
        )
        [letter] = [line for line in _letters(it) if line["retry_id"] == dead.json()["retry_id"]]
        assert letter["last_error_code"] == 401
        assert any("GRAPH_REFRESH_TOKEN revoked" in line for line in it.text("ALERT.log"))


def _next(it: Shop) -> Any:
    return it.post(session_id=f"cs_{len(it.text('queue.jsonl'))}")


def _letters(it: Shop) -> list[dict[str, Any]]:
    return [line for number in range(500) for line in it.dead_letters(f"cs_{number}")]


def test_the_webhook_records_while_the_service_is_down_and_a_timer_sends(tmp_path: Path) -> None:
    """O-006, O-097, O-098: health knows of the timer, and no other worker runs."""
    with shop(tmp_path) as it:
        it.settings["VERDICT_URL"] = f"http://127.0.0.1:{it.graph_port}/_verdicts"
        it.graph()
        it.webhook()
        assert it.tell().status_code == 503  # the fake of Graph has no verdicts
        assert "NO VERDICT: session_id=cs_1" in it.text("ALERT.log")[0]
        assert it.tell(customer_details={"email": None}).json() == {"outcome": "cache_only"}
        _enqueue(it)
        assert "1 attempted" in it.run("verdicts", "worker", "--once")
        assert it.status() == "DELIVERED"
        assert it.run("verdicts", "health").strip().endswith("ok")


def _enqueue(it: Shop) -> None:
    """As another program would: a line without anything of Homing's."""
    line = (
        '{"retry_id":"7f3d1c52-8f4e-4c0b-9d5a-0c6f2b7a1e11","session_id":"cs_1",'
        '"customer_email":"ann@example.org","tier":"full","query":"?","verdict":' + ODD_JSON + ","
        '"created_at":"2026-02-23T10:00:00Z","attempt_count":0,"last_attempt_at":null,'
        '"next_attempt_at":"2026-02-23T10:00:01Z","last_error_code":null,'
        '"last_error_detail":null,"status":"PENDING"}\n'
    )
    with (it.folder / "queue.jsonl").open("a") as queue:
        queue.write(line)


def test_every_program_takes_another_store(tmp_path: Path) -> None:
    """As the worker does: the queue that is set is not touched."""
    with shop(tmp_path) as it:
        other = it.folder / "other.jsonl"
        store = ("--store", f"jsonl:///{other}")
        it.graph("--script", "503,503")
        it.serve(*store)
        assert it.post().status_code == 202
        it.webhook(*store)
        it.tell(session_id="cs_1")

        found = it.run("verdicts", "health", *store, code=1)
        refused = it.run("verdicts", "replay", "unknown", "--reason", "r", *store, code=1)

    assert '"session_id":"cs_1"' in other.read_text()
    assert not it.text("queue.jsonl")
    assert "no worker" in found
    assert "unknown" in refused


def test_a_dead_one_is_replayed_only_with_consent(tmp_path: Path) -> None:
    """O-135; and a service without Stripe's secret says so."""
    with shop(tmp_path) as it:
        it.graph("--script", "400")
        del it.settings["STRIPE_WEBHOOK_SECRET"]
        service = it.serve()
        assert "STRIPE_WEBHOOK_SECRET is not set: /webhook refuses all" in service.said()
        retry_id = it.post().json()["retry_id"]
        service.stop()
        words = ("verdicts", "replay", retry_id, "--reason", "address mended")
        assert "does not offer replay" in it.run(*words, code=1)
        it.run(*words, "--allow-replay")
        assert it.status() == "PENDING"
