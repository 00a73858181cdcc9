"""Which store a command works on: named by `--store`, and never made by a reader."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
import typer

from homing.cli.main import app
from tests.unit.cli.conftest import Cli

WHY = ("--reason", "x")
READERS = [
    ["status"],
    ["health"],
    ["list"],
    ["failures"],
    ["show", "x"],
    ["attempts", "x"],
    ["why", "x"],
    ["why", "ann@example.org"],
    ["watch", "--count", "1"],
    ["replay", "x", *WHY],
    ["replay", "--all", "--dry-run"],
    ["dismiss", "--filter", "route=mail", *WHY],
    ["cancel", "x", *WHY],
    ["restart", "x", *WHY],
    ["resend", "x", *WHY],
    ["restore", "x", *WHY],
    ["confirm", "x", "--evidence", "e", *WHY],
    ["annotate", "x", "--note", "n"],
    ["amend", "x", "--to", "ann@example.org", *WHY],
    ["pause", "mail", *WHY],
    ["resume", "mail", *WHY],
    ["token", "list"],
    ["token", "revoke", "x"],
]


@pytest.mark.parametrize("words", READERS, ids=lambda words: " ".join(words[:2]))
def test_readers_name_the_path_and_create_nothing(
    cli: Cli, tmp_path: Path, words: list[str]
) -> None:
    done = cli(*words, code=2)

    assert f"the store {tmp_path}/homing.db does not exist" in done.err
    assert "--store or HOMING_STORE" in done.err
    assert (done.out, done.err.count("\n")) == ("", 1)
    assert list(tmp_path.iterdir()) == []


def test_doctor_says_what_it_can_and_creates_nothing(cli: Cli, tmp_path: Path) -> None:
    done = cli("doctor", code=2)

    assert f"the store {tmp_path}/homing.db does not exist" in done.out
    assert "the stub sends nothing" in done.out
    assert list(tmp_path.iterdir()) == []


def test_a_database_of_another_program_is_left_alone(cli: Cli, tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "shop.db")) as shop:
        shop.execute("create table orders (id integer)")

    said = cli("list", "--store", "sqlite:///shop.db", code=2).err

    assert f"the store {tmp_path}/shop.db lacks 0001_deliveries" in said
    assert "is it the right one? `homing migrate` adds it" in said
    with closing(sqlite3.connect(tmp_path / "shop.db")) as shop:
        assert shop.execute("select name from sqlite_master").fetchall() == [("orders",)]


def test_a_store_is_named_in_the_command(cli: Cli) -> None:
    cli("send", "--to", "ok@stub.test", "--text", "t", "--store", "sqlite:///other.db")

    assert len(cli("list", "--store", "sqlite:///other.db", "--json").json["items"]) == 1
    cli("list", code=2)
    rows = {r["name"]: r for r in cli("config", "show", "--store", "memory:", "--json").json}
    assert (rows["store"]["value"], rows["store"]["origin"]) == ("memory:", "--store")


def test_every_command_takes_a_store(cli: Cli) -> None:
    """The demo has a store of its own."""

    def commands(group: object, *before: str) -> list[list[str]]:
        found = []
        for name, command in getattr(group, "commands", {}).items():
            found += commands(command, *before, name) or [[*before, name]]
        return found

    every = commands(typer.main.get_command(app))
    assert ["token", "create"] in every
    for words in every:
        shown = cli(*words, "--help").out
        assert ("--store" in shown) == (words != ["demo"]), words


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("outbox.db", "is not a URL; write one such as sqlite:///outbox.db"),
        ("/srv/outbox.db", "is not a URL; write one such as sqlite:///outbox.db"),
        ("sqlite://outbox.db", "a file has three slashes: sqlite:///outbox.db in this folder"),
        ("sqlite:outbox.db", "a file has three slashes: sqlite:///outbox.db in this folder"),
        ("sqllite:///outbox.db", "unknown store 'sqllite' (did you mean sqlite:?); use sqlite:, "),
        ("redis://db/0", "unknown store 'redis'; use sqlite:, postgresql:, jsonl: or memory:, or"),
    ],
)
def test_a_wrong_store_says_what_is_right(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, url: str, problem: str
) -> None:
    assert f"homing: --store: {problem}" in _one_text(cli("list", "--store", url, code=2).err)
    monkeypatch.setenv("HOMING_STORE", url)
    assert f"homing: store: {problem}" in _one_text(cli("list", code=1).err)


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("mail.example.org", "is not a URL; write one such as smtp://user:secret@mail.example.org"),
        ("mail.example.org:587", "is not a URL; write one such as smtp://user:secret@"),
        ("smpt://ann:SECRET@h", "unknown provider 'smpt' (did you mean smtp:?); use smtp:, "),
        ("graph:", "GRAPH_ENV_FILE: .env: No such file or directory"),
    ],
)
def test_a_wrong_provider_says_what_is_right(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, url: str, problem: str
) -> None:
    monkeypatch.setenv("HOMING_PROVIDER", url)

    said = cli("list", code=1).err

    assert f"homing: provider: {problem}" in said
    assert "SECRET" not in said


@pytest.mark.parametrize(
    "words",
    [
        ["serve", "--port", "0"],
        ["worker"],
        ["worker", "--processes", "2"],
        ["send", "--to", "ok@stub.test", "--text", "t"],
        ["migrate"],
        ["token", "create", "ci", "--role", "sender"],
    ],
    ids=lambda words: " ".join(words[:2]),
)
def test_a_folder_that_is_not_there_is_named(cli: Cli, tmp_path: Path, words: list[str]) -> None:
    said = cli(*words, "--store", "sqlite:///none/outbox.db", code=1).err

    assert said == (
        f"homing: store: there is no folder {tmp_path}/none: make it, or name another store\n"
    )
    assert "--store: is not a URL" in cli(*words, "--store", "outbox.db", code=2).err


def test_memory_holds_nothing_for_another_process(cli: Cli) -> None:
    assert "exists only in its own process" in cli("list", "--store", "memory:", code=2).err


def test_a_store_that_is_not_compacted_says_why(cli: Cli) -> None:
    cli("migrate")
    assert "keeps no superseded records" in cli("compact", "--yes", code=2).err


def _one_text(text: str) -> str:
    return " ".join(text.split())
