"""The providers of all routes: each is opened, checked and closed once."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable

from homing.engine.route import Route, classify_exception
from homing.engine.steps import SendStep
from homing.ports import Checked, Finding, OpenedProvider, Provider

log = logging.getLogger("homing.engine")

CHECK_TIMEOUT_S = 30.0
# A provider whose check failed is checked again after this time, until it is well.
CHECK_AGAIN_S = 60.0


class Providers:
    """`problems` says, by route, what is wrong with its provider."""

    def __init__(self, routes: Iterable[Route]) -> None:
        self.problems: dict[str, str] = {}
        self._names: dict[int, list[str]] = {}
        self._providers: dict[int, Provider] = {}
        self._unopened: set[int] = set()
        for route in routes:
            for provider in _providers_of(route):
                self._providers[id(provider)] = provider
                self._unopened.add(id(provider))
                self._names.setdefault(id(provider), []).append(route.name)

    async def watch(self) -> None:
        """Open and check each, and check again those that failed; ends when all are well.

        A provider that cannot be opened stops nothing: its sends fail and are tried again.
        """
        waiting = list(self._providers)
        while waiting:
            failed = await asyncio.gather(*(self._is_bad(key) for key in waiting))
            waiting = [key for key, is_bad in zip(waiting, failed, strict=True) if is_bad]
            if waiting:
                await asyncio.sleep(CHECK_AGAIN_S)

    async def close(self) -> None:
        for provider in self._providers.values():
            try:
                await provider.close()
            except Exception:
                log.exception("provider %s could not be closed", type(provider).__name__)

    async def _is_bad(self, key: int) -> bool:
        try:
            async with asyncio.timeout(CHECK_TIMEOUT_S):
                findings = await self._check(key)
        except Exception as error:
            findings = [Finding("provider", "bad", classify_exception(error).detail)]
        bad = [finding.detail for finding in findings if finding.verdict == "bad"]
        for name in self._names[key]:
            if bad:
                self.problems[name] = "; ".join(bad)
            else:
                self.problems.pop(name, None)
        if bad:
            names = ",".join(self._names[key])
            log.warning("provider_check_failed routes=%s detail=%s", names, "; ".join(bad))
        return bool(bad)

    async def _check(self, key: int) -> list[Finding]:
        provider: object = self._providers[key]
        if key in self._unopened and isinstance(provider, OpenedProvider):
            await provider.open()
        self._unopened.discard(key)
        return await provider.findings() if isinstance(provider, Checked) else []


def _providers_of(route: Route) -> list[Provider]:
    """The route's own, and those of its sending steps."""
    found = [step.provider for step in route.steps.values() if isinstance(step, SendStep)]
    if route.provider is not None:
        found.append(route.provider)
    return list({id(provider): provider for provider in found}.values())
