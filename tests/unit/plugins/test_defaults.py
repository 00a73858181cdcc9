"""What a plugin may say about settings that hold for all: defaults, and further variables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import pytest
from msgspec import Struct

from homing.plugins.programs import load_program
from homing.plugins.value import Plugin
from homing.settings.own_names import env


class Own(Struct, frozen=True):
    queue: Annotated[str, env("SMS_QUEUE", "Where texts wait.")] = "texts.db"


def with_file(environ: Mapping[str, str]) -> Mapping[str, str]:
    return {"SMS_QUEUE": "in-file.db", **environ}


def defaults(own: Own) -> Mapping[str, Any]:
    return {"store": f"sqlite:///{own.queue}", "server.port": 9001, "log.alert_file": None}


PLUGIN = Plugin(
    name="sms",
    about="Texts.",
    settings=Own,
    routes=lambda setup: (),
    environ=with_file,
    defaults=defaults,
)


@pytest.fixture(autouse=True)
def nothing_is_set(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("HOMING_STORE", "HOMING_SERVER__PORT", "SMS_QUEUE"):
        monkeypatch.delenv(name, raising=False)


def test_defaults_hold_where_nothing_is_given() -> None:
    general = load_program(PLUGIN).general

    assert (general.store, general.server.port) == ("sqlite:///in-file.db", 9001)
    assert general.server.host == "127.0.0.1"


def test_what_is_given_is_stronger(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SMS_QUEUE", "own.db")
    assert load_program(PLUGIN).general.store == "sqlite:///own.db"
    monkeypatch.setenv("HOMING_STORE", "memory:")
    monkeypatch.setenv("HOMING_SERVER__PORT", "8025")
    general = load_program(PLUGIN).general

    assert (general.store, general.server.port) == ("memory:", 8025)
