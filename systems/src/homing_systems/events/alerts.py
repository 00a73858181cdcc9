"""The alert on each event that fails: a structured log line and the fields of a Sentry report."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence

from homing.domain.delivery import Attempt, Delivery
from homing.engine.route import Route
from homing.engine.work.handler_names import names_of
from homing.engine.work.handlers import EVENT_ROUTE
from homing.plugins.telemetry import Telemetry
from homing.ports import Notifier, Store
from homing.runtime.app import Homing, use_as_worker
from homing_systems.events.record import alert_fields
from homing_systems.events.route import as_outbox

log = logging.getLogger("homing.events")


class EventAlerts:
    """Logs `event_failed` with the fields of the alert, then asks the alert log for its line."""

    notices: Collection[str] = frozenset({"alert"})

    def __init__(self, store: Store, alert_log: Notifier | None) -> None:
        self._store = store
        self._alert_log = alert_log

    async def notify(self, notice: str, delivery: Delivery, attempts: Sequence[Attempt]) -> bool:
        if delivery.route != EVENT_ROUTE:
            return False
        fields = await self.fields(delivery)
        if fields is not None:
            log.error("event_failed", extra=dict(fields))
        return self._alert_log is None or await self._alert_log.notify(notice, delivery, attempts)

    async def fields(self, delivery: Delivery) -> Mapping[str, str | int | None] | None:
        """None for an event with several handlers: each handler that failed has told."""
        if delivery.fanned_out:
            return None
        names = await names_of(self._store, [delivery])
        return alert_fields(delivery, names.get(delivery.id, ""))


def work_for_app(homing: Homing, telemetry: Telemetry) -> None:
    """Before an application's Homing starts as `homing events worker`."""
    alerts = EventAlerts(homing.store, telemetry.alarm if telemetry.alarm.has_file else None)
    if telemetry.sentry is not None:
        telemetry.sentry.fields[EVENT_ROUTE] = alerts.fields
    use_as_worker(homing, notifiers=[alerts], adapt=_adapted)


def _adapted(route: Route) -> Route:
    return as_outbox(route) if route.name == EVENT_ROUTE else route
