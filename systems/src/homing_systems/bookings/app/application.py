"""A small booking application on FastAPI, with its mails in the outbox."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI

from homing.plugins import Service
from homing_systems.bookings.app import api, pages
from homing_systems.bookings.app.desk import BookingDesk, DeleteCalendarEvent
from homing_systems.bookings.app.sessions import Sessions


def create_app(
    service: Service[Any],
    *,
    mail: bool = True,
    delete_calendar_event: DeleteCalendarEvent | None = None,
) -> FastAPI:
    """The application over a service, which it starts and stops.

    `mail` False: bookings are taken and no mail is sent. `delete_calendar_event` is called for
    every booking that is cancelled.
    """
    desk = BookingDesk(service, mail=mail, delete_calendar_event=delete_calendar_event)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        del app
        async with service.homing:
            await desk.start()
            try:
                yield
            finally:
                await desk.stop()

    app = FastAPI(title="Bookings", lifespan=lifespan, docs_url=None, redoc_url=None)
    app.state.desk = desk
    app.state.sessions = Sessions(service.settings.admin_password, time.monotonic)
    app.include_router(api.router)
    app.include_router(pages.router)
    return app
