"""Booking and cancelling: the change is committed first, and its mail never delays or fails it."""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Any, Literal, TypeAlias

from homing.content import addresses
from homing.domain.errors import SettingsError
from homing.plugins import Service, now_ms
from homing.ports import InFile
from homing_systems.bookings.app.bookings import Bookings, Kind, Taken
from homing_systems.bookings.payloads import (
    Booking,
    EmailPayload,
    NotificationConfig,
    build_cancellation_payload,
    build_confirmation_payload,
    send_payload,
)

log = logging.getLogger("homing.bookings")

DeleteCalendarEvent: TypeAlias = Callable[[Booking], Awaitable[None]]
Cancelled: TypeAlias = Literal["cancelled", "cancelled_before", "unknown"]


class BookingDesk:
    """`mail` False: no mail is sent or recorded. `delete_calendar_event` runs at each cancel."""

    def __init__(
        self,
        service: Service[Any],
        *,
        mail: bool = True,
        delete_calendar_event: DeleteCalendarEvent | None = None,
    ) -> None:
        if not isinstance(service.homing.store, InFile):
            raise SettingsError("store", "must be a SQLite file: the bookings are kept in it too")
        self.service = service
        self.mail = mail
        self._delete_calendar_event = delete_calendar_event
        self._bookings = Bookings(service.homing.store.path)
        self._config = _notification_config(service)
        self._running: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        """Send what an earlier process owed when it ended."""
        await asyncio.to_thread(self._bookings.open)
        if not self.mail:
            log.debug("mail_off: HOMING_PROVIDER is not set")
            return
        # The first import takes half a second, which no request shall wait for.
        await asyncio.to_thread(__import__, "icalendar")
        for kind, booking in await asyncio.to_thread(self._bookings.unrecorded):
            await self._notify(kind, booking)

    async def stop(self) -> None:
        """Let the notices that are on their way be recorded."""
        await asyncio.gather(*self._running)

    async def book(self, name: str, email: str, title: str, start_ms: int) -> Booking | None:
        """None: the time is taken."""
        booking = Booking(
            id=str(uuid.uuid4()),
            name=name,
            email=email,
            title=title,
            start_ms=start_ms,
            end_ms=start_ms + round(self.service.settings.slot.value * 1000),
            created_at_ms=self.now_ms(),
        )
        try:
            await asyncio.to_thread(self._bookings.book, booking, owes_mail=self.mail)
        except Taken:
            return None
        self._in_background(self._notify("confirmation", booking))
        return booking

    async def cancel(self, booking_id: str) -> Cancelled:
        done = await asyncio.to_thread(
            self._bookings.cancel, booking_id, self.now_ms(), owes_mail=self.mail
        )
        booking = await asyncio.to_thread(self._bookings.get, booking_id)
        if booking is None:
            return "unknown"
        if not done:
            return "cancelled_before"
        self._in_background(self._notify("cancellation", booking))
        self._in_background(self._forget_event(booking))
        return "cancelled"

    async def get(self, booking_id: str) -> Booking | None:
        return await asyncio.to_thread(self._bookings.get, booking_id)

    async def upcoming(self) -> tuple[list[Booking], int]:
        return await asyncio.to_thread(self._bookings.upcoming, self.now_ms())

    async def overlapping(self, start: datetime, end: datetime) -> list[Booking]:
        times_ms = (round(at.timestamp() * 1000) for at in (start, end))
        return await asyncio.to_thread(self._bookings.overlapping, *times_ms)

    def now_ms(self) -> int:
        return now_ms(self.service.homing)

    def payload(self, kind: Kind, booking: Booking) -> EmailPayload:
        if kind == "confirmation":
            return build_confirmation_payload(
                self._config, booking, self.service.settings.video_link
            )
        cancelled_at_ms = booking.cancelled_at_ms or booking.created_at_ms
        return build_cancellation_payload(
            self._config, booking, cancelled_by_host=True, cancelled_at_ms=cancelled_at_ms
        )

    def _in_background(self, work: Any) -> None:
        task: asyncio.Task[None] = asyncio.ensure_future(work)
        self._running.add(task)
        task.add_done_callback(self._running.discard)

    async def _notify(self, kind: Kind, booking: Booking) -> None:
        """Never raises: the booking is kept, and the next start sends what was not recorded."""
        if not self.mail:
            log.debug("mail_off: no %s is sent", kind)
            return
        try:
            payload = self.payload(kind, booking)
            key = f"{booking.id}/{kind}"
            problem = await send_payload(self.service, payload, key=key, wait=False)
        except Exception as error:
            log.exception("not_recorded", exc_info=error)
            return
        if problem is not None:
            log.error("not_recorded: %s of booking %s: %s", kind, booking.id, problem)

    async def _forget_event(self, booking: Booking) -> None:
        if self._delete_calendar_event is None:
            return
        try:
            await self._delete_calendar_event(booking)
        except Exception as error:
            log.exception("calendar_event_not_deleted", exc_info=error)


def _notification_config(service: Service[Any]) -> NotificationConfig:
    """InvalidRequest names a wrong setting."""
    bcc = service.settings.bcc
    for address in [] if bcc is None else bcc.split(","):
        addresses.parse(address, "BOOKINGS_BCC")
    return NotificationConfig(host=service.sender, bcc=bcc)
