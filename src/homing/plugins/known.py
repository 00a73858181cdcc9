"""Routes of the other installed assemblies, for reading and repairing their deliveries."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping, Sequence
from typing import Any

from homing.domain.errors import SettingsError
from homing.domain.failure import Failure
from homing.engine.route import Route
from homing.plugins.discovery import SharedQueue, all_installed
from homing.plugins.value import Assembly, Setup
from homing.ports import Envelope
from homing.settings import RouteSettings, Settings, apply_to
from homing.settings.own import load_own
from homing.stores.layout import RecordLayout

log = logging.getLogger("homing.assemblies")


class Nowhere:
    """The provider of routes that are only read: it refuses to send."""

    token_window_s = 0.0
    stays_local = True

    async def prepare(self, envelope: Envelope) -> Failure:
        del envelope
        return Failure("not_sending", "route_fault", detail="this process does not send")

    async def close(self) -> None:
        """Nothing was opened."""


def routes_as_set(assembly: Assembly[Any], setup: Setup[Any]) -> list[Route]:
    """The routes of an assembly with what `routes.NAME` sets for each."""
    given = setup.general.routes
    return [
        apply_to(route, given.get(route.name, RouteSettings())) for route in assembly.routes(setup)
    ]


def known_routes(
    general: Settings, *, own: str, worked: Sequence[Route], reading: bool
) -> Mapping[str, Sequence[Route]]:
    """By assembly, of all but the program's `own`, which works on the `worked` ones.

    An assembly that fails is named and left out: its error must not stop the commands of others.
    A queue that `own` shares with another one is logged if the program is only `reading`;
    otherwise SharedQueue is raised, because each would handle the other's deliveries.
    """
    for broken in all_installed().broken:
        log.warning("%s", broken)
    others = _by_assembly(general, but=own)
    for owners, problem in _shared_queues({own: worked, **others}):
        if own in owners and not reading:
            raise SharedQueue(problem)
        log.warning("%s", problem)
    return others


def check_queues(general: Settings, own: str) -> None:
    """Raises SharedQueue if another installed assembly owns a queue of this one."""
    for owners, problem in _shared_queues(_by_assembly(general)):
        if own in owners:
            raise SharedQueue(problem)


def shared_queues(general: Settings) -> list[str]:
    """For each queue that several installed assemblies own: which ones, and what to do."""
    return [problem for _, problem in _shared_queues(_by_assembly(general))]


def _shared_queues(by_assembly: Mapping[str, Sequence[Route]]) -> list[tuple[list[str], str]]:
    """The owners, and the problem. Queues begin with the name of their route: it is compared."""
    owners: dict[str, list[str]] = {}
    for assembly, routes in by_assembly.items():
        for route in routes:
            owners.setdefault(route.queue(), []).append(assembly)
    return [(names, _problem(queue, names)) for queue, names in owners.items() if len(names) > 1]


def _problem(queue: str, assemblies: Sequence[str]) -> str:
    return (
        f"the assemblies {' and '.join(sorted(assemblies))} both own the queue {queue!r}: each"
        " would handle the deliveries of the other, so rename the route of one, or install each in"
        " a separate environment with a separate store"
    )


def _by_assembly(general: Settings, but: str | None = None) -> dict[str, list[Route]]:
    found: dict[str, list[Route]] = {}
    for assembly in all_installed().assemblies:
        if assembly.name == but:
            continue
        try:
            found[assembly.name] = routes_as_set(assembly, _setup(assembly, general))
        except Exception as error:
            log.warning("the routes of assembly %s are unknown: %s", assembly.name, error)
    return found


def known_layouts() -> dict[str, RecordLayout]:
    """Of all installed assemblies: a program that repairs a delivery changes its records too."""
    return {
        name: layout
        for assembly in all_installed().assemblies
        for name, layout in assembly.layouts.items()
    }


def environ_of(assembly: Assembly[Any]) -> Mapping[str, str]:
    """The variables that an assembly reads its settings from."""
    return os.environ if assembly.environ is None else assembly.environ(os.environ)


def _setup(assembly: Assembly[Any], general: Settings) -> Setup[Any]:
    """Settings of another assembly that are wrong are for its own programs to refuse."""
    try:
        own = load_own(assembly.settings, environ=environ_of(assembly), demand=False).settings
    except SettingsError:
        own = assembly.settings()
    return Setup(settings=own, general=general, provider=Nowhere(), working=False)
