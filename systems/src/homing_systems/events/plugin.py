"""The event outbox as one value. Its handlers are the application's own code: `homing events
worker --app` runs them, and the other programs accept, show and repair events."""

from __future__ import annotations

from homing import Route
from homing.plugins import EVENT_ROUTE, Handlers, NoSettings, Plugin, Setup
from homing_systems.events.alerts import work_for_app
from homing_systems.events.dlq import dlq
from homing_systems.events.record import LAYOUT
from homing_systems.events.route import events_route


def routes(setup: Setup[NoSettings]) -> tuple[Route, ...]:
    return (events_route(Handlers(), generation=setup.generation),)


PLUGIN = Plugin(
    name="events",
    about="An event outbox: events written with the producer's own change, replayed in place.",
    settings=NoSettings,
    routes=routes,
    layouts={EVENT_ROUTE: LAYOUT},
    commands={"dlq": dlq},
    sql_files={"postgresql": "homing_systems.events.postgres"},
    work_for_app=work_for_app,
)
