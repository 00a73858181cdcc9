"""The booking outbox as one value: its settings, route, SQL files and `homing bookings serve`."""

from __future__ import annotations

from homing.assemblies.bookings.app.serving import serve
from homing.assemblies.bookings.app.settings import BookingsSettings
from homing.assemblies.bookings.record import LAYOUT
from homing.assemblies.bookings.route import NAME, bookings_route
from homing.engine.route import Route
from homing.plugins.value import Assembly, Setup


def routes(setup: Setup[BookingsSettings]) -> tuple[Route, ...]:
    senders = setup.general.senders
    return (bookings_route(setup.provider, sender=setup.sender, senders=senders, sign=setup.sign),)


ASSEMBLY = Assembly(
    name=NAME,
    about="Booking mails: sent while the request is handled, kept only if that failed.",
    settings=BookingsSettings,
    prefixes=("BOOKINGS_",),
    routes=routes,
    layouts={NAME: LAYOUT},
    commands={"serve": serve},
    sql_files={"sqlite": "homing.assemblies.bookings.sqlite"},
    log_fields={"SourceContext": "Michael.EmailOutbox"},
)
