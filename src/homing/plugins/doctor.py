"""`doctor`: checks everything on which delivery depends, and says what to do."""

from __future__ import annotations

import asyncio
import contextlib
import os
import stat
from collections.abc import Awaitable, Iterator, Sequence
from pathlib import Path

from msgspec.structs import asdict

from homing.domain.errors import HomingError, SettingsError, StoreError
from homing.engine.ops.advice import setup_advice, with_advice
from homing.engine.process.alerts import RESTORED
from homing.engine.process.liveness import WORKER
from homing.engine.process.pausing import BY_FAULT, paused_routes
from homing.engine.process.store_report import damage_met, why_not_writable
from homing.engine.process.unserved import unserved_queues, unserved_text
from homing.plugins.default import PLUGIN as DEFAULT
from homing.plugins.discovery import all_installed
from homing.plugins.known import shared_queues
from homing.plugins.programs import Program, assemble
from homing.plugins.store import why_missing
from homing.plugins.value import Service
from homing.ports import Checked, Clock, Finding, JournalPath, Provider, Store
from homing.runtime.app import Homing
from homing.runtime.clock import SystemClock
from homing.runtime.urls import journal_for
from homing.settings import Settings, masked, span
from homing.settings.durations import Term
from homing.stores.files import file_findings

PATIENCE_S = 15.0
# The check that says that there is no store to examine; examining it must not create it.
NO_STORE = "no store"
# Hosts give keys to services by a group that may read them (`ssl-cert` of Debian).
OTHERS_OF_A_KEY = 0o037
# A clock that is behind what was stored by this much was set back, or was wrong before.
CLOCK_STEP_S = 5.0
# Homing did not exist before 2026: a clock that shows an earlier time is wrong.
EARLIEST_MS = 1_767_225_600_000


async def examine(program: Program) -> list[Finding]:
    """Every check, in order. Files come first, because opening the store corrects their modes."""
    findings = _surroundings(program)
    try:
        homing = assemble(program, worker=False, accepts=False)
    except SettingsError as error:
        return [*findings, Finding("settings", "bad", str(error))]
    findings += await _parts(program, homing)
    try:
        missing = await why_missing(homing.store)
        if missing is not None:
            return [*findings, Finding(NO_STORE, "bad", missing)]
        async with homing:
            return await _with_opened(findings, homing, program)
    except Exception as error:  # a store that cannot be opened is what a person asks about
        return [*findings, _failed("store", error)]


async def examine_running(program: Program, homing: Homing) -> list[Finding]:
    """The same of a service that runs, in its own process."""
    findings = [*_surroundings(program), *await _parts(program, homing)]
    return await _with_opened(findings, homing, program)


async def _with_opened(findings: list[Finding], homing: Homing, program: Program) -> list[Finding]:
    opened = await _opened(homing, program)
    if not any(finding.check == "store" for finding in (*findings, *opened)):
        findings.append(Finding("store", "good", "opened; durability settings are safe"))
    return [*findings, *(finding for finding in opened if finding not in findings)]


async def _checked(check: str, findings: Awaitable[Sequence[Finding]]) -> Sequence[Finding]:
    """A check that fails is a finding, and keeps none of the others from being made."""
    try:
        return await findings
    except Exception as error:
        return [_failed(check, error)]


def _failed(check: str, error: Exception) -> Finding:
    if isinstance(error, HomingError):
        return Finding(check, "bad", str(error))
    return Finding(check, "bad", f"this could not be checked: {error}")


def _surroundings(program: Program) -> list[Finding]:
    general = program.general
    return [*_plugins(general), *_files(general), *_secrets(program), *_keys(general)]


async def _parts(program: Program, homing: Homing) -> list[Finding]:
    findings = [
        *await _checked("store", _store(homing.store)),
        *await _checked("journal", _journal(homing.store, program.general)),
    ]
    for provider in homing.providers:
        findings += map(with_advice, await _checked("provider", _provider(provider)))
    return findings


async def _opened(homing: Homing, program: Program) -> list[Finding]:
    store, clock = homing.store, homing.engine.clock
    unwritable = await why_not_writable(store, clock)
    if unwritable is not None:
        # Heartbeats are writes: while there are none, it is unknown who is alive.
        findings = [Finding("store", "bad", unwritable)]
    else:
        findings = [
            *await _checked("clock", _clock(homing)),
            *await _checked("worker", _workers(homing, program)),
        ]
    findings += await _checked("store", _noticed(store, clock))
    service = Service(homing, program.settings, program.general)
    for check in program.plugin.checks:
        findings += await _checked("plugin", check(service))
    return [*findings, *_retention(homing)]


def _retention(homing: Homing) -> Iterator[Finding]:
    """How long each route keeps what, by the names of the settings."""
    for name in homing.engine.workers:
        kept = asdict(homing.engine.routes[name].plan.retention)
        terms = (f"{record.removesuffix('_s')} {Term(kept_s)}" for record, kept_s in kept.items())
        yield Finding("retention", "good", f"{name} keeps {', '.join(terms)}")


async def _noticed(store: Store, clock: Clock) -> list[Finding]:
    """What processes have detected in the store lately."""
    damage = await damage_met(store, clock)
    restored = [str((fact.value or {}).get("text")) for fact in await store.facts(RESTORED)]
    return [
        *(
            Finding("store", "warning", f"damage was detected within the last day: {text}")
            for text in damage
        ),
        *(Finding("backup", "warning", text) for text in restored),
    ]


def _plugins(general: Settings) -> Iterator[Finding]:
    for problem in (*all_installed().broken, *shared_queues(general)):
        yield Finding("plugin", "bad", str(problem))


def _files(settings: Settings) -> Iterator[Finding]:
    """Files with addresses and payloads are readable by their owner alone, and writable."""
    for name in (settings.log.alert_file, settings.log.delivery_file, settings.journal):
        if name is not None:
            yield from file_findings(Path(name))


def _secrets(program: Program) -> Iterator[Finding]:
    """A file with a password must not be readable by others."""
    settings, loaded = program.general, program.loaded
    given = {
        name: value
        for name, value in (
            ("provider", settings.provider),
            ("store", settings.store),
            ("telemetry.sentry_dsn", settings.telemetry.sentry_dsn),
        )
        if value is not None and masked(value) != value
    }
    for name in given:
        origin = loaded.origin(name) or ""
        path = Path(os.environ.get(origin, "") if origin.endswith("_FILE") else origin)
        if path.is_file() and stat.S_IMODE(path.stat().st_mode) & 0o077:
            detail = f"{path} holds a secret ({name}) and can be read by others: chmod 600 {path}"
            yield Finding("files", "bad", detail)


def _keys(settings: Settings) -> Iterator[Finding]:
    named = {f"dkim.{domain}.key_path": key.key_path for domain, key in settings.dkim.items()}
    if settings.server.tls_key is not None:
        named["server.tls_key"] = settings.server.tls_key
    for name, path in named.items():
        # A key that is missing or cannot be read stops the start in words of its own.
        with contextlib.suppress(OSError):
            if stat.S_IMODE(Path(path).stat().st_mode) & OTHERS_OF_A_KEY:
                detail = f"{path} is a private key ({name}) that others can use: chmod 600 {path}"
                yield Finding("files", "warning", detail)


async def _store(store: Store) -> Sequence[Finding]:
    return await store.findings() if isinstance(store, Checked) else ()


async def _journal(store: Store, settings: Settings) -> list[Finding]:
    """Outcomes that the store once refused wait here for the next start of a worker."""
    named = settings.journal
    path = Path(named) if named is not None else None
    if path is None and isinstance(store, JournalPath):
        path = store.journal_path
    journal = journal_for(store, path)
    if journal is None or path is None:
        detail = "there is no emergency journal: set `journal` to a file on this machine"
        return [Finding("journal", "warning", detail)]
    if not path.exists():
        return []
    try:
        entries = await journal.entries()
    except StoreError as error:
        return [Finding("journal", "bad", f"the emergency journal cannot be read: {error}")]
    findings = [Finding("journal", "good", "the emergency journal is empty")]
    if entries:
        detail = f"{len(entries)} outcome(s) wait in the emergency journal: start a worker"
        findings = [Finding("journal", "warning", detail)]
    if journal.damage is not None:
        findings.append(Finding("journal", "bad", f"it was damaged: {journal.damage}"))
    for copy in sorted(path.parent.glob(f"{path.name}.damaged-*")):
        detail = f"{copy}: outcomes that could not be read; look through it, then remove it"
        findings.append(Finding("journal", "bad", detail))
    return findings


async def _provider(provider: Provider) -> Sequence[Finding]:
    """Reachable, trusted, logged in; nothing is sent."""
    if not isinstance(provider, Checked):
        return [Finding("provider", "good", f"{type(provider).__name__} has no check of its own")]
    try:
        async with asyncio.timeout(PATIENCE_S):
            return await provider.findings()
    except TimeoutError:
        return [Finding("provider", "bad", f"no answer within {span(PATIENCE_S)}")]


async def _clock(homing: Homing) -> list[Finding]:
    """Due times rely on the wall clock, so it must not be behind stored times."""
    now_ms = SystemClock().now_ms()
    if now_ms < EARLIEST_MS:
        return [Finding("clock", "bad", "the clock is years behind: set it")]
    engine = homing.engine
    beats = [fact.at_ms for fact in await homing.store.facts(WORKER)]
    ahead_s = (max(beats, default=0) - engine.clock.now_ms()) / 1000
    if ahead_s > CLOCK_STEP_S:
        detail = f"a worker's clock was {span(ahead_s)} ahead of this one: use one time source"
        return [Finding("clock", "bad", detail)]
    if engine.liveness.time_scale != 1.0:
        detail = f"time_scale: time runs {engine.liveness.time_scale:g} times as fast; for testing"
        return [Finding("clock", "warning", detail)]
    return [Finding("clock", "good", "not behind any stored time")]


async def _workers(homing: Homing, program: Program) -> list[Finding]:
    liveness = homing.engine.liveness
    # A service that examines itself is one of them.
    alive = len(await homing.engine.live_workers())
    detail = f"{alive} process(es) alive"
    if not alive:
        named = "" if program.plugin is DEFAULT else f"{program.plugin.name} "
        detail = f"no worker is alive: start `homing {named}serve` or `homing {named}worker`"
    findings = [Finding("worker", "good" if alive else "warning", detail)]
    for queue, number in (await unserved_queues(homing.store, liveness)).items():
        findings.append(Finding("worker", "bad", unserved_text(queue, number)))
    for route, fact in (await paused_routes(homing.store)).items():
        value = fact.value or {}
        step = setup_advice(str(value.get("error_class")))
        if value.get("by") != BY_FAULT:
            step = f"`homing resume {route}` starts it again"
        detail = f"{route} is paused: {value.get('reason')}"
        findings.append(Finding("route", "bad", detail if step is None else f"{detail}. {step}"))
    return findings
