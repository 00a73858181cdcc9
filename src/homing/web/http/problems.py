"""Errors as application/problem+json: which refusal is which status, as data."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Iterable

from msgspec import Struct
from starlette.exceptions import HTTPException

from homing.domain.errors import (
    IdempotencyConflict,
    InvalidRequest,
    NotAllowed,
    NotFound,
    Overloaded,
    StoreCorrupt,
    StoreError,
    StoreFull,
    StoreLocked,
    StoreOutcomeUnknown,
    TooLarge,
)
from homing.engine.ops.masking import PersonalDataHidden
from homing.engine.process.store_report import reason_of
from homing.web.http.answers import PHRASES, Answer, encode

log = logging.getLogger("homing.web")

PROBLEM = b"application/problem+json"
RETRY_AFTER_S = 5
TELL_EVERY_S = 1.0
MAX_FIELD_CHARS = 200

RETRY_AFTER = (b"retry-after", b"%d" % RETRY_AFTER_S)
CLOSE = (b"connection", b"close")
# By status: which callers should retry later, and whose remaining body is not read.
EXTRA_HEADERS: dict[int, tuple[tuple[bytes, bytes], ...]] = {
    401: ((b"www-authenticate", b"Bearer"),),
    408: (CLOSE,),
    413: (CLOSE,),
    429: (RETRY_AFTER,),
    503: (RETRY_AFTER,),
    507: (RETRY_AFTER,),
}


class Verdict(Struct, frozen=True):
    """How one kind of error is told; without `detail`, in the error's own words."""

    status: int
    title: str
    detail: str | None = None


NOTHING_STORED = "nothing was stored; try again later"

# The first that fits; subclasses stand before their parents.
VERDICTS: tuple[tuple[type[Exception], Verdict], ...] = (
    (TooLarge, Verdict(413, "Too large")),
    (InvalidRequest, Verdict(422, "Invalid request")),
    (
        IdempotencyConflict,
        Verdict(409, "Idempotency conflict", "this key was used by a different request"),
    ),
    (PersonalDataHidden, Verdict(403, "Forbidden")),
    (NotAllowed, Verdict(409, "Not allowed")),
    (NotFound, Verdict(404, "Not found", "it does not exist, or no longer exists")),
    (Overloaded, Verdict(503, "Overloaded", NOTHING_STORED)),
    (StoreFull, Verdict(507, "Store full", NOTHING_STORED)),
    (
        StoreOutcomeUnknown,
        Verdict(
            503,
            "Outcome unknown",
            "it may have been stored: send the request again under the same key",
        ),
    ),
    (StoreError, Verdict(503, "Store unavailable", NOTHING_STORED)),
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
        self.field = None if field is None else field[:MAX_FIELD_CHARS]
        self.status = status


class Troubles:
    """Logs that the store refuses, at most once a second."""

    def __init__(self, steady_s: Callable[[], float] = time.monotonic) -> None:
        self._steady_s = steady_s
        self._told: dict[int, float] = {}
        self._untold: Counter[int] = Counter()

    def tell(self, status: int, error: Exception) -> None:
        now_s = self._steady_s()
        if now_s < self._told.get(status, float("-inf")) + TELL_EVERY_S:
            self._untold[status] += 1
            return
        more = self._untold.pop(status, 0)
        self._told[status] = now_s
        log.error(
            "refused with %d; %d earlier refusals were not logged", status, more, exc_info=error
        )


_troubles = Troubles()


def problem(
    status: int,
    title: str = "",
    detail: str = "",
    *,
    field: str | None = None,
    delivery_id: str | None = None,
    headers: Iterable[tuple[bytes, bytes]] = (),
) -> Answer:
    body = Problem(title or PHRASES[status], status, detail, field, delivery_id)
    return Answer(encode(body), status, PROBLEM, (*EXTRA_HEADERS.get(status, ()), *headers))


def answer_for(error: Exception) -> Answer:
    """What the caller is told; it never repeats the request or an internal error."""
    if isinstance(error, BadRequest):
        return problem(error.status, detail=error.detail, field=error.field)
    if isinstance(error, HTTPException):
        return problem(error.status_code)
    for kind, verdict in VERDICTS:
        if isinstance(error, kind):
            return _by_verdict(error, verdict)
    log.error("a request failed", exc_info=error)
    return problem(500, "Internal error", "the log has the reason")


def _by_verdict(error: Exception, verdict: Verdict) -> Answer:
    if verdict.status >= 500:
        _troubles.tell(verdict.status, error)
    if isinstance(error, InvalidRequest):
        named = error.field[:MAX_FIELD_CHARS]
        return problem(verdict.status, verdict.title, error.problem, field=named)
    detail = verdict.detail or str(error)
    if isinstance(error, StoreLocked | StoreCorrupt):
        detail = f"{reason_of(error)}; {detail}"
    if isinstance(error, IdempotencyConflict):
        return problem(
            verdict.status,
            verdict.title,
            detail,
            field="Idempotency-Key",
            delivery_id=error.delivery_id,
        )
    field = error.field if isinstance(error, PersonalDataHidden) else None
    return problem(verdict.status, verdict.title, detail, field=field)
