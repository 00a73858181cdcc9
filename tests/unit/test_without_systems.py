"""Homing without the distribution `homing-systems`: nothing of it is named or needed."""

from __future__ import annotations

import json
import re
import sysconfig
from collections.abc import Mapping
from pathlib import Path
from typing import get_args

import pytest

import homing
from homing.domain.delivery import State
from tests.unit.cli.programs import run_with, serving

PACKAGE = Path(homing.__file__).parent
# `events` and `mail` are words of the library as well: its own routes have these names.
SYSTEMS = re.compile(r"\b(homing.systems|bookings|reviews|verdicts|mail-service|mock.graph)\b")
# Without `site`, so that what the environment of the tests has installed is not found.
COMMAND = ("-S", "-m", "homing")
OF_SYSTEMS = re.compile(r"_?(editable_impl_)?homing_systems")


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, str]:
    """The environment of a Python in which Homing is installed and the systems are not."""
    packages = tmp_path_factory.mktemp("packages")
    for path in Path(sysconfig.get_path("purelib")).iterdir():
        if not OF_SYSTEMS.match(path.name):
            (packages / path.name).symlink_to(path)
    found = f"{packages}:{PACKAGE.parent}"
    return {"PYTHONPATH": found, "HOMING_STORE": "sqlite:///alone.db", "COLUMNS": "200"}


def test_no_source_names_a_system() -> None:
    named = {
        str(path.relative_to(PACKAGE)): found.group()
        for path in PACKAGE.rglob("*")
        if path.suffix in {".py", ".html", ".sql", ".js", ".toml"}
        and (found := SYSTEMS.search(path.read_text("utf-8")))
    }

    assert named == {}


HELP = """
import typer
from homing.cli.main import app

def show(group, *before):
    context = typer.Context(group, info_name=" ".join(["homing", *before]))
    print(group.get_help(context))
    for name, command in getattr(group, "commands", {}).items():
        show(command, *before, name)

show(typer.main.get_command(app))
"""


def test_no_help_names_a_system(alone: Mapping[str, str], tmp_path: Path) -> None:
    done = run_with(alone, tmp_path, command=("-S", "-c", HELP))

    assert "Usage: homing doctor" in done.stdout
    assert not SYSTEMS.search(done.stdout)
    assert "Plugins:" not in done.stdout


def test_no_setting_is_of_a_system(alone: Mapping[str, str], tmp_path: Path) -> None:
    done = run_with(alone, tmp_path, "config", "show", "--json", command=COMMAND)

    names = [row["name"] for row in json.loads(done.stdout)]
    assert "store" in names
    assert [name for name in names if SYSTEMS.search(name) or name.isupper()] == []
    assert {name.split(".")[1] for name in names if name.startswith("routes.")} == {"mail"}


@pytest.mark.parametrize("words", [("config", "show"), ("doctor",)], ids=" ".join)
def test_no_command_names_a_system(
    alone: Mapping[str, str], tmp_path: Path, words: tuple[str, ...]
) -> None:
    run_with(alone, tmp_path, "migrate", command=COMMAND)

    done = run_with(alone, tmp_path, *words, command=COMMAND)

    assert not SYSTEMS.search(done.stdout + done.stderr)


def test_status_words_are_those_of_the_engine(alone: Mapping[str, str], tmp_path: Path) -> None:
    run_with(alone, tmp_path, "migrate", command=COMMAND)

    done = run_with(alone, tmp_path, "list", "--status", "?", command=COMMAND, code=2)

    assert done.stderr.strip().endswith(f"must be one of {', '.join(sorted(get_args(State)))}")


def test_the_service_names_no_system(alone: Mapping[str, str], tmp_path: Path) -> None:
    with serving(tmp_path, command=COMMAND, **alone) as served:
        served.ends_as(served.post("k", to=["ok@stub.test"]), "delivered")
        for path in ("/metrics", "/api/v1/openapi.json", "/"):
            answer = served.get(path)
            assert answer.status_code == 200
            assert not SYSTEMS.search(answer.text)
        metrics = served.get("/metrics").text
        assert set(re.findall(r'route="([^"]*)"', metrics)) == {"events", "mail"}
        assert set(re.findall(r'state="([^"]*)"', metrics)) == set(get_args(State))
