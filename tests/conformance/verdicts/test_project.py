"""What is delivered beside the code: settings, units, documents, the smoke test."""

from __future__ import annotations

import configparser
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from homing.domain.errors import SettingsError
from homing.plugins.known import Nowhere
from homing.plugins.programs import Program, assemble, load_program
from homing.plugins.value import Setup
from homing.settings.own_names import own_names
from homing_systems.verdicts.plugin import PLUGIN
from homing_systems.verdicts.programs import WEBHOOK_PORT
from homing_systems.verdicts.settings import VerdictSettings, environ_with_file
from tools.conformance import ROWS, covered_rows, without_test

ROOT = Path(__file__).parents[3]
UNITS = ROOT / "systems/src/homing_systems/verdicts/units"
REQUIRED = ("GRAPH_TENANT_ID", "GRAPH_CLIENT_ID", "GRAPH_REFRESH_TOKEN", "GRAPH_SENDER")


@pytest.fixture
def env_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """All that is required, in the file alone."""
    for name in os.environ:
        if name.startswith(("HOMING_", "EMAIL_", "GRAPH_", "STRIPE_", "VERDICT_")):
            monkeypatch.delenv(name)
    path = tmp_path / ".env"
    values = ("contoso", "client-1", "a-refresh-token", "a@example.org")
    path.write_text("".join(f"{n}={v}\n" for n, v in zip(REQUIRED, values, strict=True)))
    path.chmod(0o600)
    monkeypatch.setenv("GRAPH_ENV_FILE", str(path))
    monkeypatch.chdir(tmp_path)
    return path


def test_the_files_of_the_document_are_the_defaults(env_file: Path) -> None:
    """O-038, O-040, O-128"""
    program = load_program(PLUGIN)

    assert program.general.store == "jsonl:////home/nous/oracle_email_retry_queue.jsonl"
    assert program.general.server.port == 8006
    assert WEBHOOK_PORT == 8007
    own = VerdictSettings()
    assert own.dead_letters == "/home/nous/oracle_email_dead_letter.jsonl"
    assert own.delivery_log == "/home/nous/oracle_email_delivery.log"
    assert own.alert_log == program.general.log.alert_file == "/home/nous/ALERT.log"
    assert (own.max_attempts, own.env_file) == (4, "/home/nous/.env")
    assert own.service_url == "http://127.0.0.1:8006"


def test_each_variable_takes_effect(
    env_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """O-038, O-039, O-040"""
    monkeypatch.setenv("EMAIL_RETRY_QUEUE_PATH", str(tmp_path / "q.jsonl"))
    monkeypatch.setenv("EMAIL_DEAD_LETTER_PATH", str(tmp_path / "d.jsonl"))
    monkeypatch.setenv("EMAIL_RETRY_MAX_ATTEMPTS", "2")
    program = load_program(PLUGIN)
    [route] = PLUGIN.routes(_setup(program))

    assert program.general.store == f"jsonl:///{tmp_path}/q.jsonl"
    assert program.settings.dead_letters == str(tmp_path / "d.jsonl")
    assert route.plan.stage("send").retry.max_attempts == 2
    monkeypatch.setenv("HOMING_STORE", "memory:")
    assert load_program(PLUGIN).general.store == "memory:"
    monkeypatch.setenv("EMAIL_RETRY_QUEUE", "typo")
    with pytest.raises(SettingsError, match="EMAIL_RETRY_QUEUE: there is no such setting"):
        load_program(PLUGIN)


def _setup(program: Program) -> Setup[VerdictSettings]:
    return Setup(program.settings, program.general, Nowhere())


def test_variables_may_stand_in_the_env_file(env_file: Path, tmp_path: Path) -> None:
    """O-041: those of the process are stronger."""
    with env_file.open("a") as file:
        file.write(
            f"EMAIL_RETRY_MAX_ATTEMPTS=3\nEMAIL_RETRY_QUEUE_PATH='{tmp_path}/in-file.jsonl'\n"
        )

    program = load_program(PLUGIN)
    assert program.settings.max_attempts == 3
    assert program.general.store == f"jsonl:///{tmp_path}/in-file.jsonl"
    assert program.general.sender == "a@example.org"
    stronger = environ_with_file({"GRAPH_ENV_FILE": str(env_file), "EMAIL_RETRY_MAX_ATTEMPTS": "5"})
    assert stronger["EMAIL_RETRY_MAX_ATTEMPTS"] == "5"


@pytest.mark.parametrize("name", REQUIRED)
def test_a_missing_credential_is_named(env_file: Path, name: str) -> None:
    """O-037"""
    lines = env_file.read_text().splitlines(keepends=True)
    env_file.write_text("".join(line for line in lines if not line.startswith(name)))

    with pytest.raises(SettingsError, match=f"{name}: is missing"):
        assemble(load_program(PLUGIN), worker=True)


def test_units_start_the_programs_and_a_timer_looks_every_minute() -> None:
    """O-127, O-097, O-099"""
    started = {}
    for path in UNITS.glob("*.service"):
        unit = configparser.ConfigParser(strict=False, interpolation=None)
        unit.read(path)
        started[path.stem] = unit["Service"]["ExecStart"].partition("verdicts ")[2]
        assert unit["Service"]["Restart"] == "always"
    assert started == {
        "homing-verdicts": "serve",
        "homing-verdicts-webhook": "webhook",
        "homing-verdicts-worker": "worker",
    }
    timer = configparser.ConfigParser(interpolation=None)
    timer.read(UNITS / "homing-verdicts-worker.timer")
    assert timer["Timer"]["OnCalendar"] == "minutely"
    assert timer["Timer"]["Unit"] == "homing-verdicts-worker.service"
    assert "* * * * *" in (UNITS / "homing-verdicts.cron").read_text()


def test_the_documents_say_what_an_owner_must_know() -> None:
    """O-119, O-127"""
    guide = (ROOT / "systems/docs/guides/verdicts.md").read_text()
    runbook = (ROOT / "systems/docs/runbooks/verdicts.md").read_text()

    assert "may be sent twice" in guide
    for variable in own_names(VerdictSettings):
        assert f"`{variable}`" in guide, variable
    for word in ("DEAD LETTER", "WORKER ABSENT", "LOCK TIMEOUT", "NO VERDICT", "TOKEN"):
        assert word in runbook


# Two faults of a build: a ladder without waits, and dead letters that are told wrongly.
BROKEN = """
import sys
if "homing" in sys.orig_argv:  # in the programs, not in what looks at them
    from homing_systems.verdicts import lines, route
    route.LADDER_S = (0.001, 0.001, 0.001, 0.001)
    lines.ALERT_MARK = "[ALERT]"
"""


def test_the_smoke_test_is_one_command_that_fails_on_a_broken_build(tmp_path: Path) -> None:
    """O-126: both proofs see it. That they pass on a good build is seen where they are."""
    (tmp_path / "sitecustomize.py").write_text(BROKEN)
    recipe = (ROOT / "Makefile").read_text().partition("\nsmoke-verdicts:")[2].split("\n")[1]
    command = shlex.split(recipe.replace(".venv/bin/pytest", f"{sys.executable} -m pytest"))
    paths = [str(tmp_path), str(ROOT), *filter(None, sys.path)]

    done = subprocess.run(
        [*command, f"--basetemp={tmp_path / 'base'}"],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(paths)},
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 1, done.stdout
    assert "2 failed" in done.stdout
    assert re.findall(r"^FAILED \S+::test_(ver_\d+)", done.stdout, re.MULTILINE) == [
        "ver_02",
        "ver_03",
    ]


def test_every_row_has_a_test() -> None:
    assert without_test("verdicts") == []
    assert set(covered_rows("verdicts")) == set(ROWS["verdicts"])
