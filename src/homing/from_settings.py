"""From settings to a Homing: what the programs (`serve`, `worker`, the readers) run on."""

from __future__ import annotations

import traceback
from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from homing.app import Homing
from homing.domain.errors import SettingsError
from homing.domain.failure import Failure
from homing.domain.policy import Plan, Stage
from homing.engine.route import Route, classify_exception
from homing.mail_route import MAIL_ROUTE, mail_route
from homing.observers import DELIVERY_LOG, SENTRY
from homing.ports import Alarm, Notifier, Observer, Provider
from homing.settings import RouteSettings, Settings, apply_to, check, in_force
from homing.settings.tree import LimitSettings
from homing.urls import provider_from_url

if TYPE_CHECKING:
    from homing.content.limits import Limits


def build(
    settings: Settings,
    *,
    worker: bool,
    observers: Sequence[Observer] = (),
    notifiers: Sequence[Notifier] = (),
    alarm: Alarm | None = None,
) -> Homing:
    """A Homing with its mail route, as set. Nothing is opened yet."""
    check(settings)
    for name in settings.routes:
        if name != MAIL_ROUTE:
            raise SettingsError(f"routes.{name}", f"there is no such route; there is {MAIL_ROUTE}")
    route = route_for(settings)
    return Homing(
        settings.store,
        provider=route.provider,
        routes=(route,),
        worker=worker,
        observers=observers,
        notifiers=notifiers,
        alarm=alarm,
        time_scale=settings.time_scale,
        stop_grace_s=settings.stop_grace.value,
    )


def route_for(settings: Settings) -> Route:
    """The mail route as it is in force."""
    from homing.content.templates import Catalog

    if settings.sender is None and not settings.provider.startswith("stub:"):
        raise SettingsError("sender", "is required: whom does the mail come from?")
    catalog = None if settings.templates is None else Catalog.load(settings.templates)
    route = mail_route(
        _provider(settings),
        sender=settings.sender,
        catalog=catalog,
        limits=_limits(settings.limits),
    )
    route = replace(route, judge=judge_discreetly).with_plans(lambda plan: _owing(plan, settings))
    return apply_to(route, settings.routes.get(MAIL_ROUTE, RouteSettings()))


def judge_discreetly(problem: Exception | Failure, stage: Stage) -> Failure:
    """A surprise in a step of ours: only its kind and place, for its words may quote the mail."""
    del stage
    if isinstance(problem, Failure):
        return problem
    frames = traceback.extract_tb(problem.__traceback__, limit=-1)
    place = "".join(f" in {frame.name}, line {frame.lineno}" for frame in frames)
    detail = f"{type(problem).__name__}{place}"
    return replace(classify_exception(problem), detail=detail, trace=None)


def defaults() -> RouteSettings:
    """What is in force on the mail route when nothing is set, for the reference."""
    return in_force(route_for(Settings()))


def _owing(plan: Plan, settings: Settings) -> Plan:
    """A log line is due with the state itself, so that a crash loses none."""
    delivered, failed = plan.notify_on_delivered, plan.notify_on_failed
    if settings.log.deliveries is not None:
        delivered += (DELIVERY_LOG,)
    if settings.telemetry.sentry_dsn is not None:
        failed += (SENTRY,)
    return replace(plan, notify_on_delivered=delivered, notify_on_failed=failed)


def _provider(settings: Settings) -> Provider:
    try:
        return provider_from_url(settings.provider)
    except SettingsError as error:
        if error.setting == "provider":
            raise
        # An option of the URL: the setting that people know is the provider.
        raise SettingsError("provider", f"{error.setting}: {error.problem}") from None


def _limits(given: LimitSettings) -> Limits:
    from homing.content.limits import Limits

    return Limits(
        recipients=given.recipients,
        body_bytes=given.body_bytes,
        attachments_bytes=given.attachments_bytes,
    )
