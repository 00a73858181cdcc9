"""The JSON endpoints: booking for visitors, cancelling and the outbox for the host."""

from __future__ import annotations

import json
from collections.abc import Callable, Coroutine
from typing import Annotated, Any, TypeVar

from fastapi import APIRouter, Depends, HTTPException, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, field_validator
from pydantic.alias_generators import to_camel

from homing.content import addresses
from homing.content.characters import check_label
from homing.domain.errors import InvalidRequest
from homing_systems.bookings import outbox
from homing_systems.bookings.app import sessions
from homing_systems.bookings.app.desk import BookingDesk
from homing_systems.bookings.outbox import OutboxError
from homing_systems.bookings.record import OutboxEntry

T = TypeVar("T")

LONGEST_AHEAD_MS = 5 * 365 * 24 * 3600 * 1000
STATUS = {"unknown": 404, "conflict": 409, "invalid": 422, "store": 503}


class JsonRoute(APIRoute):
    """FastAPI reads the body before the dependencies: size and type are checked before that."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def answer(request: Request) -> Response:
            sessions.require_json(request)
            try:
                response = await handle(request)
            except RequestValidationError as refusal:
                response = _refused(refusal)
            response.headers["Cache-Control"] = "no-store"
            return response

        return answer


router = APIRouter(prefix="/api", route_class=JsonRoute)
admin = APIRouter(
    prefix="/admin", route_class=JsonRoute, dependencies=[Depends(sessions.require_admin)]
)


class BookIn(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    name: Annotated[str, Field(min_length=1, max_length=100)]
    email: Annotated[str, Field(max_length=254)]
    start: Annotated[AwareDatetime, Field(strict=False)]
    title: Annotated[str, Field(min_length=1, max_length=200)]

    @field_validator("name", "title")
    @classmethod
    def one_line(cls, value: str) -> str:
        if not value.strip():
            raise ValueError("is empty")
        return _checked(check_label, value.strip())

    @field_validator("email")
    @classmethod
    def address(cls, value: str) -> str:
        return _checked(addresses.normalise, value)


class LoginIn(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    password: Annotated[str, Field(max_length=1000)]


class OutboxItem(BaseModel):
    """What the list shows of a row: not its body, recipient's name, bcc or calendar part."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, from_attributes=True)

    id: str
    to_address: str
    subject: str
    status: str
    attempts: int
    max_attempts: int
    next_retry_at: str
    last_error: str | None
    created_at: str


class Dashboard(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True)

    upcoming_booking_count: int
    pending_email_count: int
    failed_email_count: int


def desk_of(request: Request) -> BookingDesk:
    found: BookingDesk = request.app.state.desk
    return found


Desk = Annotated[BookingDesk, Depends(desk_of)]


@router.post("/book", dependencies=[Depends(sessions.check_origin)])
async def book(given: BookIn, desk: Desk) -> dict[str, str]:
    start_ms = round(given.start.timestamp() * 1000)
    if not 0 < start_ms - desk.now_ms() <= LONGEST_AHEAD_MS:
        problem = "is in the past, or too far ahead"
        raise HTTPException(422, [{"loc": ["body", "start"], "msg": problem}])
    booking = await desk.book(given.name, given.email, given.title, start_ms)
    if booking is None:
        raise HTTPException(409, "this time is taken")
    return {"id": booking.id}


@router.post("/admin/login")
async def login(given: LoginIn, request: Request, response: Response) -> dict[str, bool]:
    if not sessions.log_in(request, response, given.password):
        raise HTTPException(401, "the password is wrong")
    return {"loggedIn": True}


@admin.post("/logout", status_code=204)
async def logout(request: Request, response: Response) -> None:
    sessions.log_out(request, response)


@admin.post("/bookings/{booking_id}/cancel")
async def cancel(booking_id: str, desk: Desk) -> dict[str, str]:
    outcome = await desk.cancel(booking_id)
    if outcome == "unknown":
        raise HTTPException(404, "there is no such booking")
    if outcome == "cancelled_before":
        raise HTTPException(409, "it is cancelled already")
    return {"id": booking_id, "status": "cancelled"}


@admin.get("/dashboard")
async def dashboard(desk: Desk) -> Dashboard:
    counts = _ok(await outbox.get_outbox_counts(desk.service))
    _, upcoming = await desk.upcoming()
    return Dashboard(
        upcoming_booking_count=upcoming,
        pending_email_count=counts.pending,
        failed_email_count=counts.failed,
    )


@admin.get("/outbox")
async def list_outbox(desk: Desk) -> list[OutboxItem]:
    entries: list[OutboxEntry] = _ok(await outbox.list_outbox_entries(desk.service))
    return [OutboxItem.model_validate(entry) for entry in entries]


@admin.get("/outbox/{entry_id}", include_in_schema=False)
async def nothing_to_get(entry_id: str) -> None:
    """Without it, `/outbox/summary` would be a wrong method instead of an unknown path."""
    raise HTTPException(404, f"there is no {entry_id}; counts are in /api/admin/dashboard")


@admin.post("/outbox/{entry_id}/retry")
async def retry(entry_id: str, desk: Desk) -> OutboxItem:
    entry = _ok(await outbox.retry_outbox_entry(desk.service, entry_id))
    return OutboxItem.model_validate(entry)


@admin.delete("/outbox/{entry_id}", status_code=204)
async def dismiss(entry_id: str, desk: Desk) -> None:
    _ok(await outbox.dismiss_outbox_entry(desk.service, entry_id))


def _refused(refusal: RequestValidationError) -> Response:
    """Names the fields, and does not repeat what was sent: not all of it can be written as JSON."""
    problems = [
        {"loc": each["loc"], "msg": each["msg"].removeprefix("Value error, ")}
        for each in refusal.errors()
    ]
    return Response(json.dumps({"detail": problems}), 422, media_type="application/json")


def _ok(result: T | OutboxError) -> T:
    if isinstance(result, OutboxError):
        raise HTTPException(STATUS[result.kind], result.detail)
    return result


def _checked(check: Callable[[str, str], object], value: str) -> str:
    """Pydantic names the field; the check says what is wrong."""
    try:
        found = check(value, "")
    except InvalidRequest as error:
        raise ValueError(error.problem) from None
    return found if isinstance(found, str) else value


router.include_router(admin)
