"""docs/guides/writing-a-plugin.md: a sixth plugin, installed from a package of its own.

It is made of the public names alone, and runs by command line, REST and worker.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.docs.blocks import GUIDES, blocks_in, files_in, write_files
from tests.docs.gateway import Gateway, gateway
from tests.docs.installing import install
from tests.unit.cli.programs import run, run_with, serving, started, until

FILES = files_in("writing-a-plugin.md", "writing-a-provider.md")
UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}")
WHY = ("--reason", "the number exists now")


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    source = tmp_path_factory.mktemp("homing-sms")
    write_files(source, FILES)
    return install(source, tmp_path_factory.mktemp("installed"))


@pytest.fixture
def texts() -> Iterator[Gateway]:
    with gateway() as server:
        yield server


@pytest.fixture
def environ(package: Path, texts: Gateway) -> dict[str, str]:
    return {"PYTHONPATH": str(package), "SMS_GATEWAY": texts.url}


def listed(folder: Path, environ: dict[str, str], *words: str) -> list[dict[str, Any]]:
    shown = run_with(environ, folder, "list", "--json", *words)
    items: list[dict[str, Any]] = json.loads(shown.stdout)["items"]
    return items


def ends_as(folder: Path, environ: dict[str, str], status: str) -> dict[str, Any]:
    found: dict[str, Any] = until(
        lambda: next(iter(listed(folder, environ, "--status", status)), None), what=status
    )
    return found


def test_the_command_line_knows_it(tmp_path: Path, environ: dict[str, str]) -> None:
    assert (
        "sms       Text messages over an HTTP gateway"
        in run_with(environ, tmp_path, "--help").stdout
    )
    shown = run_with(environ, tmp_path, "sms", "--help").stdout
    assert "Text messages over an HTTP gateway." in shown
    for command in ("serve", "worker", "send", "list", "why", "replay", "doctor", "migrate"):
        assert re.search(rf"^  {command} ", shown, re.MULTILINE), command


def test_its_settings_are_checked(tmp_path: Path, environ: dict[str, str]) -> None:
    without = {"PYTHONPATH": environ["PYTHONPATH"]}
    missing = run_with(without, tmp_path, "sms", "worker", code=1).stderr
    assert missing == "homing: SMS_GATEWAY: is required: Where the gateway is.\n"
    unknown = run_with(environ | {"SMS_GATWAY": "x"}, tmp_path, "sms", "worker", code=1).stderr
    assert "SMS_GATWAY: there is no such setting" in unknown
    wrong = run_with(environ | {"SMS_MAX_ATTEMPTS": "0"}, tmp_path, "sms", "worker", code=1).stderr
    assert wrong == "homing: SMS_MAX_ATTEMPTS: Expected `int` >= 1; write a value such as 4\n"
    shown = run_with(environ | {"SMS_KEY": "SECRET"}, tmp_path, "sms", "config", "show").stdout
    assert re.search(r"^SMS_KEY +\*\*\* +SMS_KEY$", shown, re.MULTILINE)
    assert re.search(r"^SMS_MAX_ATTEMPTS +4 +default$", shown, re.MULTILINE)
    assert re.search(r"^routes.sms.max_attempts +4 ", shown, re.MULTILINE)


def test_reading_needs_none_of_its_settings(tmp_path: Path, environ: dict[str, str]) -> None:
    without = {"PYTHONPATH": environ["PYTHONPATH"]}
    run_with(without, tmp_path, "sms", "migrate")
    assert listed(tmp_path, without, "--status", "texted") == []
    assert run_with(without, tmp_path, "sms", "failures").stdout


def test_command_line_and_worker(tmp_path: Path, environ: dict[str, str], texts: Gateway) -> None:
    """Handed in by its own command, delivered by its worker, read and repaired by everyone's."""
    failures = tmp_path / "failures"
    environ["SMS_FAILURES"] = str(failures)
    sent = run_with(environ, tmp_path, "sms", "send", "+49 30 123456", "Here.", "--key", "ride-7")
    delivery_id = sent.stdout.strip()
    assert UUID.fullmatch(delivery_id)
    refused = run_with(environ, tmp_path, "sms", "send", "12", "Here.", "--key", "x", code=2).stderr
    assert refused == "homing: to: is not a number such as +4930123456\n"
    dead = run_with(environ, tmp_path, "sms", "send", "+4930555000", "Lost.", "--key", "ride-8")

    with started(tmp_path, ["-m", "homing", "sms", "worker"], **environ):
        assert ends_as(tmp_path, environ, "texted")["delivery_id"] == delivery_id
        assert ends_as(tmp_path, environ, "undelivered")["error_class"] == "number_refused"
        until(failures.exists, what="the notice")

    assert texts.accepted == [{"to": "+4930123456", "text": "Here."}]
    assert failures.read_text() == "+4930555000\n"
    assert "number_refused" in run_with(environ, tmp_path, "why", dead.stdout.strip()).stdout
    replayed = run_with(environ, tmp_path, "replay", dead.stdout.strip(), *WHY).stdout
    assert replayed == f"replay: {dead.stdout.strip()} is queued\n"


def test_the_line_of_its_layout(tmp_path: Path, environ: dict[str, str], texts: Gateway) -> None:
    """Written as the guide shows it; a line that another program appends is sent, too."""
    queue = tmp_path / "texts.jsonl"
    environ["HOMING_STORE"] = f"jsonl:///{queue}"
    [shown] = [b.code for b in blocks_in(GUIDES / "writing-a-plugin.md") if b.language == "json"]
    expected = json.loads(shown)
    send = ("sms", "send", expected["to"], expected["text"], "--key", expected["ride"])
    run_with(environ, tmp_path, *send)
    appended = {**expected, "ride": "ride-8", "text": "Appended.", "status": "queued"}
    del appended["_homing"]
    with queue.open("a", encoding="utf-8") as file:
        file.write(json.dumps(appended) + "\n")

    with started(tmp_path, ["-m", "homing", "sms", "worker"], **environ):
        until(lambda: len(listed(tmp_path, environ, "--status", "texted")) == 2, what="both sent")

    records = [json.loads(line) for line in queue.read_text("utf-8").splitlines()]
    last = {record["ride"]: record for record in records}
    assert list(last["ride-7"]) == list(expected)
    assert {**last["ride-7"], "since": expected["since"], "_homing": {}} == expected
    assert {**last["ride-8"], "_homing": {}} == {**expected, **appended, "status": "texted"}
    assert sorted(text["text"] for text in texts.accepted) == ["Appended.", "Your taxi is here."]


def test_rest(tmp_path: Path, environ: dict[str, str], texts: Gateway) -> None:
    """Its own endpoint beside the standard ones; `homing serve` reads the same store."""
    key = {"Idempotency-Key": "ride-9"}
    with serving(tmp_path, command=("-m", "homing", "sms"), **environ) as served:
        url = f"{served.url}/texts"
        answer = httpx2.post(url, json={"to": "+4930123456", "text": "Here."}, headers=key)
        assert answer.status_code == 202
        delivery_id = answer.json()["id"]
        again = httpx2.post(url, json={"to": "+49 30 123456", "text": "Here."}, headers=key)
        assert again.json() == {"id": delivery_id, "new": False}
        wrong = httpx2.post(url, json={"to": "12", "text": "x"}, headers={"Idempotency-Key": "y"})
        assert (wrong.status_code, wrong.json()["field"]) == (422, "to")
        conflict = httpx2.post(url, json={"to": "+4930123456", "text": "?"}, headers=key)
        assert conflict.status_code == 409
        assert served.ends_as(delivery_id, "delivered")["status"] == "texted"
        assert httpx2.post(f"{served.url}/api/v1/deliveries", json={}).status_code == 405
        assert httpx2.get(url).status_code == 405
    assert len(texts.accepted) == 1
    with serving(tmp_path, **environ) as served:
        found = served.get("/api/v1/deliveries?status=texted&route=sms").json()["items"]
        assert [item["delivery_id"] for item in found] == [delivery_id]


def test_fast_time_with_a_fake_on_loopback(
    tmp_path: Path, environ: dict[str, str], texts: Gateway
) -> None:
    """Minutes of retries in seconds: the provider says that it stays on this machine."""
    texts.script = [503, 503]
    environ["HOMING_TIME_SCALE"] = "1000"
    run_with(environ, tmp_path, "sms", "send", "+4930123456", "Here.", "--key", "ride-7")
    with started(tmp_path, ["-m", "homing", "sms", "worker"], **environ):
        assert ends_as(tmp_path, environ, "texted")["attempts"] == 3
    assert len(set(texts.tokens)) == 1
    away = {**environ, "SMS_GATEWAY": "https://sms.example.org"}
    assert "time_scale: is for testing" in run_with(away, tmp_path, "sms", "worker", code=1).stderr


def test_doctor_asks_its_provider_and_its_checks(tmp_path: Path, environ: dict[str, str]) -> None:
    run_with(environ, tmp_path, "sms", "migrate")
    found = json.loads(run_with(environ, tmp_path, "sms", "doctor", "--json").stdout)["findings"]
    details = [finding["detail"] for finding in found if finding["check"] == "gateway"]
    assert details == ["it answers 200", "SMS_KEY is not set: the gateway must trust this host"]


def test_where_it_is_missing_its_deliveries_name_it(
    tmp_path: Path, environ: dict[str, str], texts: Gateway
) -> None:
    sent = run_with(environ, tmp_path, "sms", "send", "+4930555000", "Lost.", "--key", "ride-8")
    with started(tmp_path, ["-m", "homing", "sms", "worker"], **environ):
        ends_as(tmp_path, environ, "undelivered")
    delivery_id = sent.stdout.strip()
    missing = "plugin 'sms' (package homing-sms 1.0), which is not installed here"

    assert missing in run(tmp_path, "why", delivery_id).stdout
    assert missing in run(tmp_path, "replay", delivery_id, *WHY, code=1).stderr
    assert json.loads(run(tmp_path, "show", delivery_id, "--json").stdout)["status"] == "failed"


def test_a_broken_one_is_named_and_harms_no_other(tmp_path: Path, environ: dict[str, str]) -> None:
    broken = tmp_path / "broken"
    metadata = broken / "homing_pager-2.0.dist-info"
    metadata.mkdir(parents=True)
    (broken / "homing_pager.py").write_text("import a_package_that_is_not_there\n")
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: homing-pager\nVersion: 2.0\n")
    (metadata / "entry_points.txt").write_text("[homing.plugins]\npager = homing_pager:X\n")
    environ["PYTHONPATH"] += f":{broken}"

    named = "plugin 'pager' of package homing-pager 2.0 cannot be loaded"
    assert "pager" in run_with(environ, tmp_path, "--help").stdout
    assert named in run_with(environ, tmp_path, "pager", "worker", code=1).stderr
    run_with(environ, tmp_path, "migrate")
    done = run_with(environ, tmp_path, "list", "--status", "texted")
    assert named in done.stderr
    assert "texted" not in done.stderr
    run_with(environ, tmp_path, "sms", "send", "+4930123456", "Here.", "--key", "ride-7")
    report: subprocess.CompletedProcess[str] = run_with(environ, tmp_path, "doctor", code=1)
    assert named in report.stdout
