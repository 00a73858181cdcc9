"""Problems: one answer for each kind of error, and one word in the log a second."""

from __future__ import annotations

import logging

import msgspec
import pytest
from starlette.exceptions import HTTPException

from homing.domain import errors
from homing.web.http.problems import (
    TELL_EVERY_S,
    VERDICTS,
    BadRequest,
    Problem,
    Troubles,
    answer_for,
)

EXAMPLES: list[tuple[Exception, int]] = [
    (errors.InvalidRequest("to", "is empty"), 422),
    (errors.TooLarge("text", "is too large"), 413),
    (errors.IdempotencyConflict("shop", "k", "d1"), 409),
    (errors.NotFound("no delivery secret"), 404),
    (errors.NotAllowed("cannot replay"), 409),
    (errors.Overloaded("closed"), 503),
    (errors.StoreError("secret"), 503),
    (errors.StoreFull("secret"), 507),
    (errors.StoreUnavailable("secret"), 503),
    (errors.StoreOutcomeUnknown("secret"), 503),
    (errors.StoreUnsafe("secret"), 503),
    (errors.StoreCorrupt("secret"), 503),
    (BadRequest("is wrong", "limit"), 400),
    (HTTPException(404, "secret"), 404),
    (RuntimeError("secret"), 500),
]


@pytest.mark.parametrize(("error", "status"), EXAMPLES)
def test_every_error_is_a_problem_that_tells_no_secret(error: Exception, status: int) -> None:
    answer = answer_for(error)
    told = msgspec.json.decode(answer.body, type=Problem)
    assert (answer.status_code, told.status) == (status, status)
    assert dict(answer.all_headers())[b"content-type"] == b"application/problem+json"
    assert told.title
    assert b"secret" not in answer.body


def test_every_refusal_of_the_domain_has_its_verdict() -> None:
    kinds = {kind for kind, _ in VERDICTS}
    for name in dir(errors):
        kind = getattr(errors, name)
        if isinstance(kind, type) and issubclass(kind, errors.Refused | errors.StoreError):
            assert kind is errors.Refused or kinds & set(kind.__mro__), name


def test_subclasses_stand_before_their_parents() -> None:
    kinds = [kind for kind, _ in VERDICTS]
    for place, kind in enumerate(kinds):
        assert not any(issubclass(later, kind) for later in kinds[place + 1 :])


def test_a_field_is_cut_before_it_is_told() -> None:
    told = msgspec.json.decode(answer_for(BadRequest("no such filter", "x" * 9999)).body)
    assert len(told["field"]) == 200


def test_trouble_is_told_once_a_second(caplog: pytest.LogCaptureFixture) -> None:
    now_s = 100.0
    troubles = Troubles(lambda: now_s)
    with caplog.at_level(logging.ERROR):
        for _ in range(4000):
            troubles.tell(507, errors.StoreFull("no room"))
        troubles.tell(503, errors.StoreUnavailable("gone"))
        now_s += TELL_EVERY_S
        troubles.tell(507, errors.StoreFull("no room"))
    assert [record.getMessage() for record in caplog.records] == [
        "refused with 507; 0 earlier refusals were not logged",
        "refused with 503; 0 earlier refusals were not logged",
        "refused with 507; 3999 earlier refusals were not logged",
    ]
