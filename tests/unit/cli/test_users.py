"""`homing user`: people who sign in, kept in the store."""

from __future__ import annotations

import asyncio
import getpass
import io
import subprocess
import sys
from pathlib import Path

import httpx2
import pytest

from homing.engine.access import passwords
from homing.runtime.app import Homing
from tests.unit.cli.conftest import Cli
from tests.unit.cli.programs import clean_environ, serving, until

PASSWORD = "correct horse battery"


@pytest.fixture(autouse=True)
def _cheap_passwords(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passwords, "COST", passwords.Cost(log_n=4, r=1, p=1))


def type_in(monkeypatch: pytest.MonkeyPatch, password: str) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(password + "\n"))


def test_people_are_added_listed_and_removed(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    type_in(monkeypatch, PASSWORD)
    assert cli("user", "create", "ann", "--role", "operator").out == "create: ann is operator\n"
    cli("user", "create", "bob@example.org", "--role", "viewer", "--by-proxy")
    listed = cli("user", "list", "--json").json["items"]
    assert [(user["name"], user["role"], user["has_password"]) for user in listed] == [
        ("ann", "operator", True),
        ("bob@example.org", "viewer", False),
    ]
    assert PASSWORD not in cli("user", "list").out
    cli("user", "delete", "ann")
    acts = cli("audit", "--json").json["items"]
    assert [(act["verb"], act["subject"]) for act in acts] == [
        ("delete user", "user:ann"),
        ("create user", "user:bob@example.org"),
        ("create user", "user:ann"),
    ]
    assert {act["actor"] for act in acts} == {getpass.getuser()}
    assert "user:ann" in cli("audit").out
    assert [user["name"] for user in cli("user", "list", "--json").json["items"]] == [
        "bob@example.org"
    ]


def test_a_new_password_replaces_the_old_one(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    type_in(monkeypatch, PASSWORD)
    cli("user", "create", "ann", "--role", "operator")
    type_in(monkeypatch, "another password")
    cli("user", "password", "ann")
    cli("user", "sign-out", "ann")

    async def checked() -> list[bool]:
        async with Homing("sqlite:///homing.db", worker=False) as homing:
            given = (PASSWORD, "another password")
            return [await homing.users.check("ann", each) is not None for each in given]

    assert asyncio.run(checked()) == [False, True]


@pytest.mark.parametrize(
    ("words", "password", "says", "code"),
    [
        (("create", "ann", "--role", "sender"), PASSWORD, "is not a role", 2),
        (("create", "ann", "--role", "viewer"), "short", "must have 12 to 256 characters", 2),
        (("create", "eve", "--role", "viewer"), PASSWORD, "a user named 'eve' exists", 1),
        (("delete", "nobody"), "", "no user named 'nobody'", 1),
    ],
)
def test_what_is_wrong_is_named(
    cli: Cli,
    monkeypatch: pytest.MonkeyPatch,
    words: tuple[str, ...],
    password: str,
    says: str,
    code: int,
) -> None:
    cli("user", "create", "eve", "--role", "viewer", "--by-proxy")
    type_in(monkeypatch, password)
    assert says in cli("user", *words, code=code).err


def test_a_session_outlives_the_process_that_began_it(tmp_path: Path) -> None:
    """`homing user create`, a real sign-in with the real cost of a password, and a restart."""
    environ = clean_environ({})
    command = [sys.executable, "-m", "homing", "user"]
    subprocess.run(
        [*command, "create", "ann", "--role", "operator"],
        input=f"{PASSWORD}\n".encode(),
        cwd=tmp_path,
        env=environ,
        check=True,
    )
    settings = {"HOMING_SERVER__AUTH": "session"}
    with httpx2.Client() as browser:
        with serving(tmp_path, **settings) as served:
            assert browser.get(f"{served.url}/api/v1/stats").status_code == 401
            given = {"name": "ann", "password": PASSWORD}
            assert browser.post(f"{served.url}/api/v1/sign-in", json=given).status_code == 200
            assert browser.get(f"{served.url}/api/v1/stats").status_code == 200
        with serving(tmp_path, **settings) as served:
            assert browser.get(f"{served.url}/api/v1/me").json()["name"] == "ann"
            subprocess.run([*command, "delete", "ann"], cwd=tmp_path, env=environ, check=True)
            until(lambda: browser.get(f"{served.url}/api/v1/me").status_code == 401)
