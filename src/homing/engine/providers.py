"""The providers of all routes: each is opened, checked and closed once."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable

from homing.domain.failure import Failure
from homing.engine.route import Route, classify_exception
from homing.engine.steps import SendStep
from homing.ports import CheckedProvider, OpenedProvider, Provider

log = logging.getLogger("homing.engine")

CHECK_TIMEOUT_S = 30.0


class Providers:
    """`findings` says for each route what is wrong with its provider, once that is known."""

    def __init__(self, routes: Iterable[Route]) -> None:
        self.findings: dict[str, Failure | None] = {}
        self._names: dict[int, list[str]] = {}
        self._providers: dict[int, Provider] = {}
        for route in routes:
            for provider in _providers_of(route):
                self._providers[id(provider)] = provider
                self._names.setdefault(id(provider), []).append(route.name)
        self._opened = False

    async def open(self) -> None:
        """A provider that cannot be opened stops nothing: its sends fail and are tried again."""
        if self._opened:
            return
        self._opened = True
        await asyncio.gather(*(self._open(key) for key in self._providers))

    async def close(self) -> None:
        for provider in self._providers.values():
            try:
                await provider.close()
            except Exception:
                log.exception("provider %s could not be closed", type(provider).__name__)

    async def _open(self, key: int) -> None:
        provider: object = self._providers[key]
        try:
            async with asyncio.timeout(CHECK_TIMEOUT_S):
                if isinstance(provider, OpenedProvider):
                    await provider.open()
                failure = await provider.check() if isinstance(provider, CheckedProvider) else None
        except Exception as error:
            failure = classify_exception(error)
        for name in self._names[key]:
            self.findings[name] = failure or self.findings.get(name)
        if failure is not None:
            log.warning(
                "provider_check_failed routes=%s error_class=%s detail=%s",
                ",".join(self._names[key]),
                failure.error_class,
                failure.detail,
            )


def _providers_of(route: Route) -> list[Provider]:
    """The route's own, and those of its sending steps."""
    found = [step.provider for step in route.steps.values() if isinstance(step, SendStep)]
    if route.provider is not None:
        found.append(route.provider)
    return list({id(provider): provider for provider in found}.values())
