"""The alert on each event that fails: a structured log line and the fields of a Sentry report."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

from homing import Homing, Route
from homing.domain.delivery import Delivery
from homing.plugins import EVENT_ROUTE, RouteNotices, handler_names, use_as_worker
from homing.plugins.telemetry import Telemetry
from homing.ports import Notice, Notifier, Store
from homing_systems.events.record import LAYOUT, alert_fields
from homing_systems.events.route import as_outbox

log = logging.getLogger("homing.events")

ALERT = "alert"


class EventAlerts:
    """Logs `event_failed` with the fields of the alert, then asks the alert log for its line."""

    def __init__(self, store: Store, alert_log: Notifier | None) -> None:
        self._store = store
        self._alert_log = alert_log

    async def write(self, group: Sequence[Notice]) -> Sequence[bool]:
        for notice in group:
            fields = await self.fields(notice.delivery)
            if fields is not None:
                log.error("event_failed", extra=dict(fields))
        if self._alert_log is None:
            return [True] * len(group)
        return await self._alert_log.notify(ALERT, group)

    async def fields(self, delivery: Delivery) -> Mapping[str, str | int | None] | None:
        """None for an event with several handlers: each handler that failed has told."""
        if delivery.fanned_out:
            return None
        names = await handler_names(self._store, [delivery])
        return alert_fields(delivery, names.get(delivery.id, ""))


def work_for_app(homing: Homing, telemetry: Telemetry) -> None:
    """Before an application's Homing starts as `homing events worker`."""
    alerts = EventAlerts(homing.store, telemetry.alarm if telemetry.alarm.has_file else None)
    if telemetry.sentry is not None:
        telemetry.sentry.fields[EVENT_ROUTE] = alerts.fields
    notifier = RouteNotices({(EVENT_ROUTE, ALERT): alerts.write})
    use_as_worker(homing, notifiers=[notifier], adapt=_adapted, layouts={EVENT_ROUTE: LAYOUT})


def _adapted(route: Route) -> Route:
    return as_outbox(route) if route.name == EVENT_ROUTE else route
