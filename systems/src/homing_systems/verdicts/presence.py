"""Checks whether a worker runs, and whether the files that report failures can be written."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from homing.plugins import Service, provider_problems, store_problem, waiting_unserved
from homing.ports import Finding
from homing_systems.verdicts.delivering import alert
from homing_systems.verdicts.route import NAME


async def alert_if_absent(service: Service[Any]) -> str | None:
    """What to say, also in ALERT.log, where no worker serves the queue; None if one does."""
    waiting = await waiting_unserved(service.homing, NAME)
    if waiting is None:
        return None
    text = f"no worker is running, {waiting} waiting: start `homing {NAME} worker`"
    await alert(service, "WORKER ABSENT", text)
    return text


async def problems(service: Service[Any]) -> list[str]:
    """Everything that prevents verdicts from being delivered or failures from being reported."""
    unwritable = await store_problem(service.homing)
    if unwritable is not None:
        return [unwritable, *_files(service)]
    absent = await alert_if_absent(service)
    failing = [f"the provider fails: {text}" for text in provider_problems(service.homing)]
    return [*([absent] if absent else []), *failing, *_files(service)]


async def files(service: Service[Any]) -> list[Finding]:
    """A check for `doctor`."""
    return [Finding("files", "bad", text) for text in _files(service)] or [
        Finding("files", "good", "alert log, delivery log and dead-letter file can be written")
    ]


def _files(service: Service[Any]) -> list[str]:
    settings = service.settings
    paths = (settings.alert_log, settings.delivery_log, settings.dead_letters)
    return [f"{path} cannot be written" for path in paths if not _is_writable(Path(path))]


def _is_writable(path: Path) -> bool:
    return os.access(path if path.exists() else path.parent, os.W_OK) and not path.is_dir()
