"""From settings to a Homing: what the programs (`serve`, `worker`, the readers) run on."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import urlsplit

from homing.app import Homing
from homing.domain.errors import SettingsError
from homing.engine.route import Route
from homing.mailing import MAIL_ROUTE, mail_route
from homing.ports import Alarm, Notifier, Observer
from homing.settings import Settings, apply_to
from homing.urls import provider_from_url

LOOPBACK_HOSTS = frozenset({"", "localhost", "127.0.0.1", "::1"})


def build(
    settings: Settings,
    *,
    worker: bool,
    observers: Sequence[Observer] = (),
    notifiers: Sequence[Notifier] = (),
    alarm: Alarm | None = None,
) -> Homing:
    """A Homing with its mail route, as set. Nothing is opened yet."""
    check_time_scale(settings)
    route = _mail_route(settings)
    for name in settings.routes:
        if name != route.name:
            raise SettingsError(f"routes.{name}", f"there is no such route; there is {route.name}")
    return Homing(
        settings.store,
        provider=route.provider,
        routes=(route,),
        worker=worker,
        observers=observers,
        notifiers=notifiers,
        alarm=alarm,
        time_scale=settings.time_scale,
    )


def check_time_scale(settings: Settings) -> None:
    """Fast time is for testing: no mail leaves this machine under it."""
    host = urlsplit(settings.provider).hostname or ""
    if settings.time_scale != 1.0 and host not in LOOPBACK_HOSTS:
        raise SettingsError("time_scale", f"is refused together with the provider at {host}")


def _mail_route(settings: Settings) -> Route:
    from homing.content.limits import Limits
    from homing.content.templates import Catalog

    provider = provider_from_url(settings.provider)
    if settings.sender is None and not settings.provider.startswith("stub:"):
        raise SettingsError("sender", "is required: whom does the mail come from?")
    catalog = None if settings.templates is None else Catalog.load(settings.templates)
    limits = Limits(
        recipients=settings.limits.recipients,
        body_bytes=settings.limits.body_bytes,
        attachments_bytes=settings.limits.attachments_bytes,
    )
    route = mail_route(provider, sender=settings.sender, catalog=catalog, limits=limits)
    given = settings.routes.get(MAIL_ROUTE)
    return route if given is None else apply_to(route, given)
