"""The pages: booking for visitors, dashboard and email queue for the host.

Each works without script. A form that was carried out is answered by a redirect, so that loading
the page again repeats nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from fastapi import APIRouter, Depends, HTTPException, Request
from fastapi.responses import FileResponse, HTMLResponse, RedirectResponse, Response
from fastapi.routing import APIRoute
from jinja2 import Environment, FileSystemLoader
from pydantic import ValidationError

from homing.assemblies.bookings import outbox
from homing.assemblies.bookings.app import api, sessions
from homing.assemblies.bookings.app.api import BookIn, Desk
from homing.assemblies.bookings.app.desk import BookingDesk
from homing.assemblies.bookings.app.slots import hours_of, offered_days, slots_of
from homing.assemblies.bookings.outbox import OutboxCounts, OutboxError
from homing.assemblies.bookings.payloads import Booking
from homing.stores.layout import iso_utc

HERE = Path(__file__).parent
STATIC = frozenset({"app.css", "app.js", "icon.svg"})
QUEUE = "/admin/email-queue"
HEADERS = {
    "Content-Security-Policy": (
        "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    # Without a referrer, browsers send forms with the Origin `null`.
    "Referrer-Policy": "same-origin",
}
NOT_FREE = "This time is not free any more. Choose another one."
# By field, in the order of the form.
WRONG = {
    "start": "Choose a time.",
    "name": "Enter your name, on one line of at most 100 characters.",
    "email": "Enter a full email address, such as ann@example.org.",
    "title": "Enter what the meeting is about, on one line of at most 200 characters.",
}
REFUSED = {
    "unknown": "This email is not in the queue any more.",
    "conflict": "This email is not failed any more.",
}
DONE = {
    "retry": "The email is tried again.",
    "dismiss": "The email is dismissed.",
    "cancel": "The meeting is cancelled.",
}


def moment(iso: str) -> str:
    return f"{datetime.fromisoformat(iso):%A, %d %B %Y, %H:%M} UTC"


def short_moment(iso: str) -> str:
    return f"{datetime.fromisoformat(iso):%Y-%m-%d %H:%M} UTC" if iso else ""


templates = Environment(loader=FileSystemLoader(HERE / "templates"), autoescape=True)
templates.filters |= {"moment": moment, "short_moment": short_moment, "iso_utc": iso_utc}


class PageRoute(APIRoute):
    """A refusal is shown as a page, and a missing session leads to the login."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def answer(request: Request) -> Response:
            try:
                response = await handle(request)
            except HTTPException as refusal:
                if refusal.status_code == 401:
                    response = RedirectResponse("/admin/login", 303)
                else:
                    response = page(
                        request, "message.html", refusal.status_code, detail=refusal.detail
                    )
            response.headers.update(HEADERS)
            return response

        return answer


router = APIRouter(route_class=PageRoute, include_in_schema=False)
admin = APIRouter(
    route_class=PageRoute,
    prefix="/admin",
    dependencies=[Depends(sessions.require_admin)],
    include_in_schema=False,
)


def page(request: Request, template: str, status: int = 200, **values: object) -> Response:
    token = sessions.form_token(request)
    mail = api.desk_of(request).mail
    html = templates.get_template(template).render(form_token=token, mail=mail, **values)
    return HTMLResponse(html, status, {"Cache-Control": "no-store"})


@router.get("/static/{name}")
async def static(name: str) -> Response:
    if name not in STATIC:
        raise HTTPException(404, "There is no such file.")
    return FileResponse(HERE / "static" / name, headers={"Cache-Control": "no-cache"})


@router.get("/")
async def booking_page(request: Request, desk: Desk) -> Response:
    return await show_booking(request, desk)


@router.post("/")
async def book(request: Request, desk: Desk) -> Response:
    form = await sessions.checked_form(request)
    given = {name: form.get(name, "").strip() for name in WRONG}
    try:
        wanted = BookIn.model_validate(given)
    except ValidationError as error:
        fields = {each["loc"][0] for each in error.errors()}
        errors = {name: text for name, text in WRONG.items() if name in fields}
        return await show_booking(request, desk, 422, given=given, errors=errors)
    try:
        answer = await api.book(wanted, desk)
    except HTTPException as refusal:
        return await show_booking(
            request, desk, refusal.status_code, given=given, errors={"start": NOT_FREE}
        )
    return RedirectResponse(f"/booked/{answer['id']}", 303)


async def show_booking(
    request: Request,
    desk: BookingDesk,
    status: int = 200,
    *,
    given: Mapping[str, str] | None = None,
    errors: Mapping[str, str] | None = None,
) -> Response:
    """The form for the day that the address names, or else for the first one."""
    days = offered_days(desk.now_ms())
    asked = request.query_params.get("day")
    day = next((each for each in days if each.isoformat() == asked), days[0])
    length = timedelta(seconds=desk.service.settings.slot.value)
    slots = slots_of(day, length, await desk.overlapping(*hours_of(day)))
    return page(
        request,
        "booking.html",
        status,
        days=days,
        day=day,
        slots=slots,
        minutes=round(length.total_seconds() / 60),
        given=given or {},
        errors=errors or {},
    )


@router.get("/booked/{booking_id}")
async def booked(request: Request, desk: Desk, booking_id: str) -> Response:
    """The id cannot be guessed: who has it made the booking."""
    return page(request, "booked.html", booking=await _booking(desk, booking_id))


@router.get("/admin/login")
async def login_page(request: Request) -> Response:
    sessions.check_possible(request)
    if sessions.is_admin(request):
        return RedirectResponse("/admin", 303)
    return page(request, "login.html")


@router.post("/admin/login")
async def log_in(request: Request) -> Response:
    form = await sessions.checked_form(request)
    response = RedirectResponse("/admin", 303)
    try:
        if sessions.log_in(request, response, form.get("password", "")):
            return response
    except HTTPException as refusal:
        if refusal.status_code != 429:
            raise
        wait_s = (refusal.headers or {})["Retry-After"]
        error = f"There were too many failed logins. Try again in {wait_s} seconds."
        limited = page(request, "login.html", 429, error=error)
        limited.headers["Retry-After"] = wait_s
        return limited
    return page(request, "login.html", 401, error="This password is wrong.")


@admin.post("/logout")
async def log_out(request: Request) -> Response:
    await sessions.checked_form(request)
    response = RedirectResponse("/admin/login", 303)
    sessions.log_out(request, response)
    return response


@admin.get("")
async def dashboard(request: Request, desk: Desk) -> Response:
    figures = await api.dashboard(desk)
    upcoming, upcoming_count = await desk.upcoming()
    counts = OutboxCounts(figures.pending_email_count, figures.failed_email_count)
    return page(
        request,
        "dashboard.html",
        counts=counts,
        state=state_of(counts),
        upcoming=upcoming,
        upcoming_count=upcoming_count,
        done=_done(request),
    )


@admin.get("/bookings/{booking_id}/cancel")
async def confirm_cancel(request: Request, desk: Desk, booking_id: str) -> Response:
    return page(request, "cancel.html", booking=await _booking(desk, booking_id))


@admin.post("/bookings/{booking_id}/cancel")
async def cancel(request: Request, desk: Desk, booking_id: str) -> Response:
    await sessions.checked_form(request)
    await api.cancel(booking_id, desk)
    return RedirectResponse("/admin?done=cancel", 303)


@admin.get("/email-queue")
async def queue_page(request: Request, desk: Desk) -> Response:
    return await show_queue(request, desk)


@admin.post("/email-queue/{entry_id}/retry")
async def retry(request: Request, desk: Desk, entry_id: str) -> Response:
    await sessions.checked_form(request)
    result = await outbox.retry_outbox_entry(desk.service, entry_id)
    if isinstance(result, OutboxError):
        return await show_queue(request, desk, refusal=result)
    return RedirectResponse(f"{QUEUE}?done=retry", 303)


@admin.get("/email-queue/{entry_id}/dismiss")
async def confirm_dismiss(request: Request, desk: Desk, entry_id: str) -> Response:
    for entry in await api.list_outbox(desk):
        if entry.id == entry_id:
            return page(request, "dismiss.html", entry=entry.model_dump(by_alias=True))
    refusal = OutboxError("unknown", f"there is no row {entry_id}")
    return await show_queue(request, desk, refusal=refusal)


@admin.post("/email-queue/{entry_id}/dismiss")
async def dismiss(request: Request, desk: Desk, entry_id: str) -> Response:
    await sessions.checked_form(request)
    result = await outbox.dismiss_outbox_entry(desk.service, entry_id)
    if isinstance(result, OutboxError):
        return await show_queue(request, desk, refusal=result)
    return RedirectResponse(f"{QUEUE}?done=dismiss", 303)


async def show_queue(
    request: Request, desk: BookingDesk, *, refusal: OutboxError | None = None
) -> Response:
    entries = [entry.model_dump(by_alias=True) for entry in await api.list_outbox(desk)]
    words = [entry["status"] for entry in entries]
    counts = OutboxCounts(words.count("pending"), words.count("failed"))
    return page(
        request,
        "queue.html",
        200 if refusal is None else api.STATUS[refusal.kind],
        entries=entries,
        counts=counts,
        state=state_of(counts),
        error=refusal and REFUSED.get(refusal.kind, refusal.detail),
        done=_done(request),
    )


def state_of(counts: OutboxCounts) -> str:
    if counts.pending and counts.failed:
        return "mixed"
    if counts.failed:
        return "failed"
    return "pending" if counts.pending else "healthy"


async def _booking(desk: BookingDesk, booking_id: str) -> Booking:
    booking = await desk.get(booking_id)
    if booking is None:
        raise HTTPException(404, "There is no such booking.")
    return booking


def _done(request: Request) -> str:
    """What the form did from which a redirect led here."""
    return DONE.get(request.query_params.get("done", ""), "")


router.include_router(admin)
