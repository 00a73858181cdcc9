"""Errors as application/problem+json: which refusal is which status, as data."""

from __future__ import annotations

import logging

import msgspec
from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response

from homing.domain.errors import (
    IdempotencyConflict,
    InvalidRequest,
    NotAllowed,
    NotFound,
    Overloaded,
    StoreError,
    StoreFull,
    TooLarge,
)

log = logging.getLogger("homing.web")

MEDIA_TYPE = "application/problem+json"

# The first that fits; subclasses stand before their parents.
STATUS: tuple[tuple[type[Exception], int, str], ...] = (
    (TooLarge, 413, "Too large"),
    (InvalidRequest, 422, "Invalid request"),
    (IdempotencyConflict, 409, "Idempotency conflict"),
    (NotAllowed, 409, "Not allowed"),
    (NotFound, 404, "Not found"),
    (Overloaded, 503, "Overloaded"),
    (StoreFull, 507, "Store full"),
    (StoreError, 503, "Store unavailable"),
)


class Problem(Struct, frozen=True, omit_defaults=True):
    """RFC 9457; `field` names what is wrong in the request."""

    title: str
    status: int
    detail: str = ""
    field: str | None = None
    delivery_id: str | None = None


class BadRequest(Exception):
    """The request cannot be read at all: not JSON, a wrong cursor, a missing header."""

    def __init__(self, detail: str, field: str | None = None, status: int = 400) -> None:
        super().__init__(detail)
        self.detail = detail
        self.field = field
        self.status = status


def problem(
    status: int, title: str, detail: str = "", *, field: str | None = None, **more: str
) -> Response:
    body = Problem(title, status, detail, field, more.get("delivery_id"))
    headers = {"Retry-After": "5"} if status in (503, 507) else None
    return Response(msgspec.json.encode(body), status, headers, MEDIA_TYPE)


async def refused(request: Request, error: Exception) -> Response:
    """Every refusal and store error, by the table; details never repeat what was sent."""
    del request
    if isinstance(error, BadRequest):
        return problem(error.status, "Bad request", error.detail, field=error.field)
    for kind, status, title in STATUS:
        if isinstance(error, kind):
            if isinstance(error, InvalidRequest):
                return problem(status, title, error.problem, field=error.field)
            if isinstance(error, IdempotencyConflict):
                detail = "this key was used by another request"
                return problem(
                    status, title, detail, field="Idempotency-Key", delivery_id=error.delivery_id
                )
            detail = str(error) if status < 500 else "nothing was stored; try again"
            if status >= 500:
                log.error("store: %s", error)
            return problem(status, title, detail)
    raise error


async def crashed(request: Request, error: Exception) -> Response:
    """A surprise: told in the log, not to the caller."""
    log.error("%s %s failed", request.method, request.url.path, exc_info=error)
    return problem(500, "Internal error", "the log has the reason")
