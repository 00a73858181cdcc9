"""Which observers a program runs with, from its settings."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from msgspec import Struct

from homing.observers.alert_log import AlertLog
from homing.observers.delivery_log import DeliveryLog
from homing.observers.logs import LogObserver, configure
from homing.ports import Alarm, Notifier, Observer
from homing.settings.tree import Settings


class Watching(Struct, frozen=True):
    observers: tuple[Observer, ...]
    notifiers: tuple[Notifier, ...]
    alarm: Alarm
    metrics: Callable[[Any], Awaitable[Any]] | None = None


def watch(settings: Settings) -> Watching:
    """Configure the logs and make the observers that were asked for."""
    configure(settings.log.level, settings.log.format)
    alerts = AlertLog(None if settings.log.alerts is None else Path(settings.log.alerts))
    notifiers: list[Notifier] = [alerts]
    if settings.log.deliveries is not None:
        notifiers.append(DeliveryLog(Path(settings.log.deliveries)))
    return Watching((LogObserver(),), tuple(notifiers), alerts)
