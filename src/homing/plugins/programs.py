"""From settings to a Homing, for the programs (`serve`, `worker`, the reading commands)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from homing.domain.errors import SettingsError
from homing.domain.policy import Plan
from homing.engine.route import Route
from homing.engine.work.handlers import EVENT_ROUTE
from homing.engine.work.providers import providers_of
from homing.observers import DELIVERY_LOG, SENTRY
from homing.observers.route_notices import RouteNotices
from homing.plugins.default import PLUGIN as DEFAULT
from homing.plugins.known import environ_of, known_layouts, known_routes, routes_as_set
from homing.plugins.store import store_for
from homing.plugins.value import Plugin, Setup
from homing.ports import Alarm, Notifier, Observer, Provider, StaysLocal, Store
from homing.runtime.app import Homing
from homing.runtime.entry_points import offered, package_of
from homing.runtime.mail_route import DEFAULT_SENDER
from homing.runtime.urls import provider_from_url, sends_nowhere
from homing.settings import (
    RouteSettings,
    Settings,
    check,
    in_force,
    load,
)
from homing.settings.leaves import values
from homing.settings.loading import Loaded
from homing.settings.masking import shown
from homing.settings.own import Own, load_own
from homing.settings.own_names import shown_own


class Program(Struct, frozen=True, kw_only=True):
    """A plugin with the settings that it runs with.

    `reading`: its deliveries are only read and repaired, so required settings may be missing.
    """

    loaded: Loaded
    plugin: Plugin[Any] = DEFAULT
    own: Own[Any] | None = None
    reading: bool = False
    generation: int = 0

    @property
    def general(self) -> Settings:
        """Those of all plugins."""
        return self.loaded.settings

    @property
    def settings(self) -> Any:
        """The plugin's own."""
        return self.plugin.settings() if self.own is None else self.own.settings


def load_program(
    plugin: Plugin[Any] = DEFAULT,
    config: Path | None = None,
    *,
    store: str | None = None,
    reading: bool = False,
    generation: int = 0,
) -> Program:
    """Read the file and the environment; a wrong setting is named. `store` overrides theirs."""
    loaded = load(config)
    environ = environ_of(plugin)
    own = load_own(plugin.settings, plugin.prefixes, environ=environ, demand=not reading)
    if plugin.defaults is not None:
        loaded = loaded.with_defaults(plugin.defaults(own.settings))
    if plugin.general is not None:
        general = plugin.general(own.settings, loaded.settings)
        loaded = replace(loaded, settings=general)
    if store is not None:
        origins = {**loaded.origins, "store": "--store"}
        loaded = replace(loaded, settings=replace(loaded.settings, store=store), origins=origins)
    return Program(loaded=loaded, plugin=plugin, own=own, reading=reading, generation=generation)


def build(
    settings: Settings,
    *,
    worker: bool,
    observers: Sequence[Observer] = (),
    notifiers: Sequence[Notifier] = (),
    alarm: Alarm | None = None,
) -> Homing:
    """A Homing of the default mail service, as set. Nothing is opened yet."""
    program = Program(loaded=Loaded(settings, {}))
    return assemble(program, worker=worker, observers=observers, notifiers=notifiers, alarm=alarm)


def assemble(
    program: Program,
    *,
    worker: bool,
    accepts: bool = True,
    observers: Sequence[Observer] = (),
    notifiers: Sequence[Notifier] = (),
    alarm: Alarm | None = None,
) -> Homing:
    """A Homing with the routes of this plugin; those of the others are read and repaired.

    If it accepts or delivers, it must be the only plugin that owns its queues: SharedQueue.
    """
    general, plugin = program.general, program.plugin
    check(general)
    store = store_for(general, plugin)
    setup = _setup(program, store)
    routes = routes_as_set(plugin, setup)
    reading = program.reading or not (accepts or worker)
    others = known_routes(general, own=plugin.name, worked=routes, reading=reading)
    known = _known(others, routes)
    _check_names(general, [*routes, *known])
    if not program.reading:
        _check_time_scale(general, routes)
    if plugin.notices is not None:
        notifiers = [RouteNotices(plugin.notices(setup)), *notifiers]
    return Homing(
        store,
        routes=[with_log_notices(route, general) for route in routes],
        known=known,
        layouts={**known_layouts(), **plugin.layouts},
        worker_commands=_worker_commands({**others, plugin.name: routes}),
        route_owner=_owner(plugin) if worker else None,
        worker=worker,
        generation=program.generation,
        journal=general.journal,
        observers=observers,
        notifiers=notifiers,
        alarm=alarm,
        time_scale=general.time_scale,
        shutdown_grace_s=general.shutdown_grace.value,
    )


def routes_of(program: Program) -> list[Route]:
    """The routes that this program works on, as they are in force."""
    check(program.general)
    return routes_as_set(program.plugin, _setup(program))


def settings_in_force(program: Program) -> list[tuple[str, str, str]]:
    """Every setting: its name, its value with secrets masked, and where it came from."""
    in_use = {route.name: in_force(route) for route in routes_of(program)}
    general = program.general
    if general.sender is None and sends_nowhere(general.provider):
        general = replace(general, sender=DEFAULT_SENDER)
    rows = [
        (name, shown(name, value), program.loaded.origin(name) or "default")
        for name, value in values(replace(general, routes=in_use))
    ]
    return [*rows, *shown_own(program.settings, {} if program.own is None else program.own.origins)]


def route_for(settings: Settings) -> Route:
    """The mail route of `homing serve` as it is in force."""
    [route] = routes_of(Program(loaded=Loaded(settings, {})))
    return with_log_notices(route, settings)


def defaults() -> RouteSettings:
    """What is in force on the mail route when nothing is set, for the reference."""
    return in_force(route_for(Settings()))


def _setup(program: Program, store: Store | None = None) -> Setup[Any]:
    return Setup(
        settings=program.settings,
        general=program.general,
        provider=_provider(program.general),
        working=not program.reading,
        generation=program.generation,
        store=store,
    )


def _known(others: Mapping[str, Sequence[Route]], worked: Sequence[Route]) -> list[Route]:
    """A queue belongs to one route: what this program works on is its own."""
    taken = {queue for route in worked for queue in route.served_queues}
    return [
        route
        for routes in others.values()
        for route in routes
        if not taken.intersection(route.served_queues)
    ]


def _worker_commands(by_plugin: Mapping[str, Sequence[Route]]) -> dict[str, str]:
    """By route. Events are left out: their handlers are those of an application."""
    return {
        route.name: "homing worker" if name == DEFAULT.name else f"homing {name} worker"
        for name, routes in by_plugin.items()
        for route in routes
        if route.name != EVENT_ROUTE
    }


def _check_names(settings: Settings, routes: Sequence[Route]) -> None:
    names = [route.name for route in routes]
    for name in settings.routes:
        if name not in names:
            there = ", ".join(dict.fromkeys(names))
            raise SettingsError(f"routes.{name}", f"there is no such route; there is {there}")


def _check_time_scale(settings: Settings, routes: Sequence[Route]) -> None:
    if settings.time_scale == 1.0:
        return
    for provider in providers_of(*routes):
        if not (isinstance(provider, StaysLocal) and provider.stays_local):
            problem = "is for testing: it is refused with a provider that is not on loopback"
            raise SettingsError("time_scale", problem)


def _owner(plugin: Plugin[Any]) -> str:
    entry = offered("homing.plugins").get(plugin.name)
    return f"plugin {plugin.name!r}" + (f" (package {package_of(entry)})" if entry else "")


def with_log_notices(route: Route, settings: Settings) -> Route:
    """A log line is due with the state itself, so that a crash loses none."""

    def with_notices(plan: Plan) -> Plan:
        delivered, failed = plan.notify_on_delivered, plan.notify_on_failed
        if settings.log.delivery_file is not None and DELIVERY_LOG not in delivered:
            delivered += (DELIVERY_LOG,)
        if settings.telemetry.sentry_dsn is not None and SENTRY not in failed:
            failed += (SENTRY,)
        return replace(plan, notify_on_delivered=delivered, notify_on_failed=failed)

    return route.with_plans(with_notices)


def _provider(settings: Settings) -> Provider:
    try:
        return provider_from_url(settings.provider)
    except SettingsError as error:
        if error.setting == "provider":
            raise
        # An option of the URL: the setting that people know is the provider.
        raise SettingsError("provider", f"{error.setting}: {error.problem}") from None
