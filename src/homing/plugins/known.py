"""Routes of the other installed plugins, for reading and repairing their deliveries."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping, Sequence
from typing import Any

from homing.domain.errors import SettingsError, SharedQueue
from homing.domain.failure import Failure
from homing.engine.route import Route
from homing.plugins.discovery import all_installed
from homing.plugins.value import Plugin, Setup
from homing.ports import Envelope
from homing.settings import RouteSettings, Settings, apply_to
from homing.settings.own import load_own
from homing.stores.layout import RecordLayout

log = logging.getLogger("homing.plugins")


class Nowhere:
    """The provider of routes that are only read: it refuses to send."""

    token_window_s = 0.0
    stays_local = True

    async def prepare(self, envelope: Envelope) -> Failure:
        del envelope
        return Failure("not_sending", "route_fault", detail="this process does not send")

    async def close(self) -> None:
        """Nothing was opened."""


def routes_as_set(plugin: Plugin[Any], setup: Setup[Any]) -> list[Route]:
    """The routes of a plugin with what `routes.NAME` sets for each."""
    given = setup.general.routes
    return [
        apply_to(route, given.get(route.name, RouteSettings())) for route in plugin.routes(setup)
    ]


def known_routes(
    general: Settings, *, own: str, worked: Sequence[Route], reading: bool
) -> Mapping[str, Sequence[Route]]:
    """By plugin, of all but the program's `own`, which works on the `worked` ones.

    A plugin that fails is named and left out: its error must not stop the commands of others.
    A queue that `own` shares with another one is logged if the program is only `reading`;
    otherwise SharedQueue is raised, because each would handle the other's deliveries.
    """
    for broken in all_installed().broken:
        log.warning("%s", broken)
    others = _by_plugin(general, but=own)
    for owners, problem in _shared_queues({own: worked, **others}):
        if own in owners and not reading:
            raise SharedQueue(problem)
        log.warning("%s", problem)
    return others


def check_queues(general: Settings, own: str) -> None:
    """Raises SharedQueue if another installed plugin owns a queue of this one."""
    for owners, problem in _shared_queues(_by_plugin(general)):
        if own in owners:
            raise SharedQueue(problem)


def shared_queues(general: Settings) -> list[str]:
    """For each queue that several installed plugins own: which ones, and what to do."""
    return [problem for _, problem in _shared_queues(_by_plugin(general))]


def _shared_queues(by_plugin: Mapping[str, Sequence[Route]]) -> list[tuple[list[str], str]]:
    """The owners, and the problem. Queues begin with the name of their route: it is compared."""
    owners: dict[str, list[str]] = {}
    for plugin, routes in by_plugin.items():
        for route in routes:
            owners.setdefault(route.queue(), []).append(plugin)
    return [(names, _problem(queue, names)) for queue, names in owners.items() if len(names) > 1]


def _problem(queue: str, plugins: Sequence[str]) -> str:
    return (
        f"the plugins {' and '.join(sorted(plugins))} both own the queue {queue!r}: each"
        " would handle the deliveries of the other, so rename the route of one, or install each in"
        " a separate environment with a separate store"
    )


def _by_plugin(general: Settings, but: str | None = None) -> dict[str, list[Route]]:
    found: dict[str, list[Route]] = {}
    for plugin in all_installed().plugins:
        if plugin.name == but:
            continue
        try:
            found[plugin.name] = routes_as_set(plugin, _setup(plugin, general))
        except Exception as error:
            log.warning("the routes of plugin %s are unknown: %s", plugin.name, error)
    return found


def known_layouts() -> dict[str, RecordLayout]:
    """Of all installed plugins: a program that repairs a delivery changes its records too."""
    return {
        name: layout
        for plugin in all_installed().plugins
        for name, layout in plugin.layouts.items()
    }


def environ_of(plugin: Plugin[Any]) -> Mapping[str, str]:
    """The variables that a plugin reads its settings from."""
    return os.environ if plugin.environ is None else plugin.environ(os.environ)


def _setup(plugin: Plugin[Any], general: Settings) -> Setup[Any]:
    """Settings of another plugin that are wrong are for its own programs to refuse."""
    try:
        own = load_own(plugin.settings, environ=environ_of(plugin), demand=False).settings
    except SettingsError:
        own = plugin.settings()
    return Setup(settings=own, general=general, provider=Nowhere(), working=False)
