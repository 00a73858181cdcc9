"""`doctor`: checks everything that could break the promise, and says what to do."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import stat
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from msgspec import Struct

from homing.app import Homing
from homing.building import build
from homing.domain.errors import HomingError, SettingsError
from homing.ports import Provider
from homing.settings import Settings

SAFE_SQLITE = (3, 51, 3)
PATIENCE_S = 15.0


class Finding(Struct, frozen=True):
    """One line of the report."""

    check: str
    verdict: Literal["good", "warning", "bad"]
    detail: str


async def examine(settings: Settings) -> list[Finding]:
    """Every check, in order; a check that crashes is itself a finding."""
    findings = [_sqlite_version(settings), *_templates(settings), *_files(settings)]
    try:
        homing = build(settings, worker=False)
    except SettingsError as error:
        return [*findings, Finding("settings", "bad", str(error))]
    try:
        async with homing:
            findings.append(Finding("store", "good", "opened; durable settings demanded and found"))
            findings.extend(await _look(homing))
    except HomingError as error:
        findings.append(Finding("store", "bad", str(error)))
    return findings


async def _look(homing: Homing) -> list[Finding]:
    findings = [await _provider(homing.provider), _clock(homing)]
    findings.append(await _worker(homing))
    for fact in await homing.store.facts("parked"):
        reason = (fact.value or {}).get("reason")
        findings.append(Finding("route", "bad", f"{fact.key} is parked: {reason}"))
    return findings


async def _provider(provider: Provider | None) -> Finding:
    check: Callable[[], Awaitable[object]] | None = getattr(provider, "check", None)
    for warning in getattr(provider, "warnings", ()):
        return Finding("provider", "warning", str(warning))
    if check is None:
        return Finding("provider", "good", "the stub sends nowhere")
    try:
        async with asyncio.timeout(PATIENCE_S):
            failure = await check()
    except TimeoutError:
        return Finding("provider", "bad", f"no answer within {PATIENCE_S:g} s")
    if failure is not None:
        word, detail = getattr(failure, "error_class", "failed"), getattr(failure, "detail", "")
        return Finding("provider", "bad", f"{word}: {detail}")
    return Finding("provider", "good", "reachable, trusted, credentials taken")


async def _worker(homing: Homing) -> Finding:
    await homing.engine.liveness.look()
    alive = len(homing.engine.liveness.alive)
    if alive:
        return Finding("worker", "good", f"{alive} process(es) alive")
    return Finding(
        "worker", "warning", "no worker is alive: start `homing serve` or `homing worker`"
    )


def _clock(homing: Homing) -> Finding:
    del homing
    year = time.gmtime().tm_year
    verdict: Literal["good", "bad"] = "good" if year >= 2026 else "bad"
    return Finding("clock", verdict, time.strftime("%Y-%m-%d %H:%M:%SZ", time.gmtime()))


def _sqlite_version(settings: Settings) -> Finding:
    if not settings.store.startswith("sqlite:"):
        return Finding("sqlite", "good", "not used")
    if sqlite3.sqlite_version_info >= SAFE_SQLITE:
        return Finding("sqlite", "good", sqlite3.sqlite_version)
    return Finding(
        "sqlite",
        "good",
        f"{sqlite3.sqlite_version}, before 3.51.3 (WAL-reset bug): one process alone checkpoints",
    )


def _templates(settings: Settings) -> list[Finding]:
    if settings.templates is None:
        return []
    from homing.content.templates import Catalog

    try:
        catalog = Catalog.load(settings.templates)
    except SettingsError as error:
        return [Finding("templates", "bad", str(error))]
    return [Finding("templates", "good", f"{len(catalog.locales())} loaded")]


def _files(settings: Settings) -> list[Finding]:
    """What holds addresses and payloads is for its owner alone."""
    path = Path(urlsplit(settings.store).path.removeprefix("/"))
    names = [path, Path(f"{path}-wal"), Path(f"{path}-shm")] if "sqlite:" in settings.store else []
    names += [Path(name) for name in (settings.log.alerts, settings.log.deliveries) if name]
    findings: list[Finding] = []
    for name in names:
        if name.exists() and stat.S_IMODE(name.stat().st_mode) & 0o077:
            findings.append(Finding("files", "bad", f"{name} can be read by others: chmod 600"))
        elif name.exists() and not os.access(name, os.W_OK):
            findings.append(Finding("files", "bad", f"{name} cannot be written"))
    return findings or [Finding("files", "good", "modes are as they should be")]
