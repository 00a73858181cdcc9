"""`doctor`: checks everything that could break the promise, and says what to do."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import stat
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Literal, TypeAlias

from msgspec import Struct

from homing.app import Homing
from homing.domain.errors import HomingError, SettingsError, StoreError
from homing.domain.failure import Failure
from homing.engine.liveness import WORKER
from homing.engine.parking import parked_routes
from homing.engine.unserved import unserved_lanes, unserved_text
from homing.from_settings import build
from homing.ports import Provider
from homing.settings import Loaded, Settings, masked, span
from homing.system import SystemClock
from homing.urls import journal_for, store_from_url

SAFE_SQLITE = (3, 51, 3)
PATIENCE_S = 15.0
# A clock that is behind what was stored by this much was set back, or was wrong before.
CLOCK_STEP_S = 5.0
# Homing did not exist before 2026: a clock that says so has lost its battery.
EARLIEST_MS = 1_767_225_600_000

Verdict: TypeAlias = Literal["good", "warning", "bad"]


class Finding(Struct, frozen=True):
    """One line of the report."""

    check: str
    verdict: Verdict
    detail: str


async def examine(loaded: Loaded) -> list[Finding]:
    """Every check, in order. Files come first: opening the store mends their modes."""
    settings = loaded.settings
    findings = [*_files(settings), *_secrets(loaded)]
    try:
        homing = build(settings, worker=False)
    except SettingsError as error:
        return [*findings, Finding("settings", "bad", str(error))]
    findings += [*_templates(settings), *_sqlite(settings), *await _journal(settings)]
    findings += await _provider(homing.provider)
    try:
        async with homing:
            findings += [_store(settings), *await _clock(homing), *await _workers(homing)]
    except HomingError as error:
        findings.append(Finding("store", "bad", str(error)))
    return findings


def pending_migrations(store: str) -> list[str]:
    """The names of migrations that the next start would apply; the store is only read."""
    path = _path(store)
    if path is None:
        return []
    from homing.stores.sql.migrate import outstanding, shipped
    from homing.stores.sql.statements import load

    package = "homing.stores.sql.sqlite"
    applied: dict[int, str] = {}
    if path.exists():
        database = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)
        try:
            applied = dict(database.execute(load(package, "open.sql")["applied_migrations"]))
        except sqlite3.OperationalError:
            applied = {}  # not ours yet: everything is pending
        except sqlite3.DatabaseError as error:
            raise StoreError(f"{path.name}: {error}") from None
        finally:
            database.close()
    return [f"{each.number:04}_{each.name}" for each in outstanding(shipped(package), applied)]


def _path(store: str) -> Path | None:
    """The file of a store that is one."""
    path = getattr(store_from_url(store), "path", None)
    return path if isinstance(path, Path) else None


def _files(settings: Settings) -> Iterator[Finding]:
    """What holds addresses and payloads is for its owner alone, and can be written."""
    names: list[Path] = []
    try:
        path = _path(settings.store)
    except SettingsError:
        path = None
    if path is not None:
        suffixes = ("", "-wal", "-shm", ".emergency", ".checkpoint.lock")
        names += [path.with_name(path.name + suffix) for suffix in suffixes]
    logs = (settings.log.alerts, settings.log.deliveries)
    names += [Path(name) for name in logs if name is not None]
    found = [finding for name in names for finding in _file(name)]
    yield from found or [Finding("files", "good", "modes are as they should be")]


def _file(path: Path) -> Iterator[Finding]:
    try:
        mode = stat.S_IMODE(path.stat().st_mode)
    except FileNotFoundError:
        if not os.access(path.parent, os.W_OK | os.X_OK):
            yield Finding("files", "bad", f"{path} cannot be made: its folder cannot be written")
        return
    except OSError as error:
        yield Finding("files", "bad", f"{path} cannot be looked at: {error.strerror}")
        return
    if mode & 0o077:
        yield Finding("files", "bad", f"{path} can be read by others: chmod 600 {path}")
    if path.is_dir() or not os.access(path, os.R_OK | os.W_OK):
        yield Finding("files", "bad", f"{path} cannot be written")


def _secrets(loaded: Loaded) -> Iterator[Finding]:
    """A password in a file that others can read is no secret."""
    given = {
        name: value
        for name, value in (
            ("provider", loaded.settings.provider),
            ("store", loaded.settings.store),
            ("telemetry.sentry_dsn", loaded.settings.telemetry.sentry_dsn),
        )
        if value is not None and masked(value) != value
    }
    for name in given:
        origin = loaded.origin(name) or ""
        path = Path(os.environ.get(origin, "") if origin.endswith("_FILE") else origin)
        if path.is_file() and stat.S_IMODE(path.stat().st_mode) & 0o077:
            detail = f"{path} holds a secret ({name}) and can be read by others: chmod 600 {path}"
            yield Finding("files", "bad", detail)


def _templates(settings: Settings) -> Iterator[Finding]:
    if settings.templates is None:
        return
    from homing.content.templates import Catalog

    locales = Catalog.load(settings.templates).locales()
    verdict: Verdict = "good" if locales else "warning"
    yield Finding("templates", verdict, f"{len(locales)} template(s) in {settings.templates}")


def _sqlite(settings: Settings) -> Iterator[Finding]:
    if _path(settings.store) is None:
        return
    detail = f"SQLite {sqlite3.sqlite_version}"
    if sqlite3.sqlite_version_info < SAFE_SQLITE:
        detail += ", before 3.51.3 (WAL-reset bug): so one connection alone checkpoints"
    yield Finding("sqlite", "good", detail)


async def _journal(settings: Settings) -> list[Finding]:
    """Outcomes that the store once refused wait here for the next start of a worker."""
    journal = journal_for(settings.store)
    path = _path(settings.store)
    if journal is None or path is None or not path.with_name(f"{path.name}.emergency").exists():
        return []
    try:
        entries = await journal.entries()
    except StoreError as error:
        return [Finding("journal", "bad", f"the emergency journal is damaged: {error}")]
    if entries:
        detail = f"{len(entries)} outcome(s) wait in the emergency journal: start a worker"
        return [Finding("journal", "warning", detail)]
    return [Finding("journal", "good", "the emergency journal is empty")]


async def _provider(provider: Provider | None) -> list[Finding]:
    """Reachable, trusted, logged in; nothing is sent."""
    findings = [
        Finding("provider", "warning", str(warning))
        for warning in getattr(provider, "warnings", ())
    ]
    check: Callable[[], Awaitable[Failure | None]] | None = getattr(provider, "check", None)
    if check is None:
        return [*findings, Finding("provider", "good", "the stub sends nowhere")]
    try:
        async with asyncio.timeout(PATIENCE_S):
            failure = await check()
    except TimeoutError:
        return [*findings, Finding("provider", "bad", f"no answer within {span(PATIENCE_S)}")]
    if failure is not None:
        said = " ".join(part for part in (failure.code, failure.detail) if part)
        return [*findings, Finding("provider", "bad", f"{failure.error_class}: {said}")]
    return [*findings, Finding("provider", "good", "reachable, trusted, credentials taken")]


def _store(settings: Settings) -> Finding:
    if _path(settings.store) is None:
        return Finding("store", "warning", "in memory only: what is accepted dies with the process")
    return Finding("store", "good", "opened; journal_mode=wal and synchronous=full found")


async def _clock(homing: Homing) -> list[Finding]:
    """Due times trust the wall clock, so it must not be behind what was stored."""
    now_ms = SystemClock().now_ms()
    if now_ms < EARLIEST_MS:
        return [Finding("clock", "bad", "the clock is years behind: set it")]
    engine = homing.engine
    beats = [fact.at_ms for fact in await homing.store.facts(WORKER)]
    ahead_s = (max(beats, default=0) - engine.clock.now_ms()) / 1000
    if ahead_s > CLOCK_STEP_S:
        detail = f"a worker's clock was {span(ahead_s)} ahead of this one: use one time source"
        return [Finding("clock", "bad", detail)]
    if engine.process.time_scale != 1.0:
        detail = f"time_scale: time runs {engine.process.time_scale:g} times as fast; for testing"
        return [Finding("clock", "warning", detail)]
    return [Finding("clock", "good", "not behind anything that was stored")]


async def _workers(homing: Homing) -> list[Finding]:
    liveness = homing.engine.liveness
    await liveness.look()
    alive = len(liveness.workers)
    detail = f"{alive} process(es) alive"
    if not alive:
        detail = "no worker is alive: start `homing serve` or `homing worker`"
    findings = [Finding("worker", "good" if alive else "warning", detail)]
    for lane, number in (await unserved_lanes(homing.store, liveness)).items():
        findings.append(Finding("worker", "bad", unserved_text(lane, number)))
    for route, fact in (await parked_routes(homing.store)).items():
        reason = (fact.value or {}).get("reason")
        findings.append(Finding("route", "bad", f"{route} is parked: {reason}"))
    return findings
