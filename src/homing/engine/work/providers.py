"""The providers of all routes: each is opened, checked and closed once."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable

from homing.domain.failure import PROVIDER_FAILS, Failure
from homing.engine.route import Route, classify_exception
from homing.engine.work.steps import SendStep
from homing.ports import (
    Accepted,
    Checked,
    Finding,
    OpenedProvider,
    Provider,
    SoundAlert,
    SoundsAlerts,
)

log = logging.getLogger("homing.engine")

CHECK_TIMEOUT_S = 30.0
# A provider whose check or send failed is checked again after this time, until it is well.
CHECK_AGAIN_S = 60.0


class Providers:
    """`problems` has, by route, what is wrong with its provider: by its last check or send."""

    def __init__(self, routes: Iterable[Route], sound: SoundAlert | None = None) -> None:
        self.problems: dict[str, str] = {}
        self._names: dict[int, list[str]] = {}
        self._providers: dict[int, Provider] = {}
        self._unopened: set[int] = set()
        self._failing: dict[int, str] = {}
        self._has_failing = asyncio.Event()
        for route in routes:
            for provider in providers_of(route):
                self._providers[id(provider)] = provider
                self._unopened.add(id(provider))
                self._names.setdefault(id(provider), []).append(route.name)
                if sound is not None and isinstance(provider, SoundsAlerts):
                    provider.sound_alerts(sound)

    async def watch(self) -> None:
        """Open and check each, then check those that fail until they work. Runs for ever.

        A provider that cannot be opened stops nothing: its sends fail and are tried again.
        """
        await asyncio.gather(*(self._check(key) for key in self._providers))
        while True:
            await self._has_failing.wait()
            await asyncio.sleep(CHECK_AGAIN_S)
            await asyncio.gather(*(self._check(key) for key in list(self._failing)))

    def learn(self, provider: Provider, answer: object) -> None:
        """Update `problems` by the answer to a send; most answers change nothing."""
        key = id(provider)
        if isinstance(answer, Failure):
            if answer.error_class in PROVIDER_FAILS and key in self._names:
                if key not in self._failing:
                    self._log("provider_fails", key, answer.detail)
                self._set(key, answer.detail or answer.error_class)
        elif key in self._failing and isinstance(answer, Accepted):
            self._set(key, None)

    async def close(self) -> None:
        for provider in self._providers.values():
            try:
                await provider.close()
            except Exception:
                log.exception("provider %s could not be closed", type(provider).__name__)

    async def _check(self, key: int) -> None:
        try:
            async with asyncio.timeout(CHECK_TIMEOUT_S):
                findings = await self._findings(key)
        except Exception as error:
            findings = [Finding("provider", "bad", classify_exception(error).detail)]
        bad = "; ".join(finding.detail for finding in findings if finding.verdict == "bad")
        if bad:
            self._log("provider_check_failed", key, bad)
        self._set(key, bad or None)

    async def _findings(self, key: int) -> list[Finding]:
        provider: object = self._providers[key]
        if key in self._unopened and isinstance(provider, OpenedProvider):
            await provider.open()
        self._unopened.discard(key)
        return await provider.findings() if isinstance(provider, Checked) else []

    def _set(self, key: int, problem: str | None) -> None:
        if problem is not None:
            self._failing[key] = problem
            self._has_failing.set()
        elif self._failing.pop(key, None) is not None and not self._failing:
            self._has_failing.clear()
        # The heartbeat reads the same dictionary.
        self.problems.clear()
        for failing, text in self._failing.items():
            self.problems.update(dict.fromkeys(self._names[failing], text))

    def _log(self, event: str, key: int, detail: str) -> None:
        log.warning("%s routes=%s detail=%s", event, ",".join(self._names[key]), detail)


def providers_of(*routes: Route) -> list[Provider]:
    """The routes' own, and those of their sending steps: each once."""
    found: list[Provider] = []
    for route in routes:
        found += [step.provider for step in route.steps.values() if isinstance(step, SendStep)]
        if route.provider is not None:
            found.append(route.provider)
    return list({id(provider): provider for provider in found}.values())
