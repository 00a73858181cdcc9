"""Commands in this process: their output, their errors, their exit codes."""

import asyncio
import json
import logging
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from homing.cli import main
from homing.domain.message import Email
from homing.plugins.programs import build
from homing.settings import RouteSettings, Seconds, Settings
from homing.settings.tree import RetrySettings

HOSTILE = "\x1b[31mred\x1b[0m\u202e\x9b2J\nforged"


@dataclass(frozen=True)
class Done:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


Cli = Callable[..., Done]


@pytest.fixture
def cli(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Cli:
    """`homing WORDS`, in a folder of its own."""
    monkeypatch.chdir(tmp_path)
    # The command sets up the logs of its process, which here is everybody's.
    monkeypatch.setattr(logging.root, "handlers", list(logging.root.handlers))
    monkeypatch.setattr(logging.root, "level", logging.root.level)
    for name in [name for name in os.environ if name.startswith("HOMING_")]:
        monkeypatch.delenv(name)

    def run(*words: str, code: int = 0) -> Done:
        monkeypatch.setattr(sys, "argv", ["homing", *words])
        with pytest.raises(SystemExit) as end:
            main()
        captured = capsys.readouterr()
        ended = end.value.code
        done = Done(ended if isinstance(ended, int) else 0, captured.out, captured.err)
        assert done.code == code, done
        return done

    return run


@pytest.fixture
def letters(cli: Cli) -> dict[str, str]:
    """A store with one delivery of every fate; its id by the name of its address."""
    retry = RetrySettings(ladder=(Seconds(3600.0),))
    settings = Settings(routes={"mail": RouteSettings(retry=retry, max_attempts=2)})
    homing = build(settings, worker=False)

    async def fill() -> dict[str, str]:
        ids = {}
        async with homing:
            for name in ("ok", "bounce", "down", "suppressed"):
                email = Email(to=f"{name}@stub.test", subject="S", text="t")
                ticket = await homing.submit(email, key=f"key-{name}", source="tests")
                ids[name] = ticket.delivery_id
            await homing.engine.run_until_idle()
        return ids

    return asyncio.run(fill())
