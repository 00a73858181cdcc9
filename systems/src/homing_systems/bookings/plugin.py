"""The booking outbox as one value: its settings, route, SQL files and `homing bookings serve`."""

from __future__ import annotations

from homing import Route
from homing.plugins import Plugin, Setup
from homing_systems.bookings.app.serving import serve
from homing_systems.bookings.app.settings import BookingsSettings
from homing_systems.bookings.record import LAYOUT
from homing_systems.bookings.route import NAME, bookings_route


def routes(setup: Setup[BookingsSettings]) -> tuple[Route, ...]:
    allowed_senders = setup.general.allowed_senders
    return (
        bookings_route(
            setup.provider, sender=setup.sender, allowed_senders=allowed_senders, sign=setup.sign
        ),
    )


PLUGIN = Plugin(
    name=NAME,
    about="Booking mails: sent while the request is handled, kept only if that failed.",
    settings=BookingsSettings,
    prefixes=("BOOKINGS_",),
    routes=routes,
    layouts={NAME: LAYOUT},
    commands={"serve": serve},
    sql_files={"sqlite": "homing_systems.bookings.sqlite"},
    log_fields={"SourceContext": "Michael.EmailOutbox"},
)
