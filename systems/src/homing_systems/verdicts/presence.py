"""Checks whether a worker runs, and whether the files that report failures can be written."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from homing.plugins import Service, unserved_queues, why_not_writable
from homing.ports import Finding
from homing_systems.verdicts.delivering import alert
from homing_systems.verdicts.route import NAME


async def alert_if_absent(service: Service[Any]) -> str | None:
    """What to say, also in ALERT.log, where no worker serves the queue; None if one does."""
    engine = service.homing.engine
    liveness = engine.liveness
    await liveness.look()
    if liveness.is_served(NAME) or NAME in await liveness.queues_of_timers():
        return None
    waiting = (await unserved_queues(service.homing.store, liveness)).get(NAME, 0)
    text = f"no worker is running, {waiting} waiting: start `homing {NAME} worker`"
    await alert(service, "WORKER ABSENT", text)
    return text


async def problems(service: Service[Any]) -> list[str]:
    """Everything that prevents verdicts from being delivered or failures from being reported."""
    engine = service.homing.engine
    unwritable = await why_not_writable(service.homing.store, engine.clock)
    if unwritable is not None:
        return [unwritable, *_files(service)]
    absent = await alert_if_absent(service)
    failing = [
        f"the provider fails: {text}" for text in engine.liveness.problems_elsewhere.values()
    ]
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
