"""What each answer of Microsoft Graph means for a verdict mail, as data."""

from __future__ import annotations

from typing import Literal, TypeAlias

from msgspec.structs import replace

from homing.domain.failure import RATE_LIMITED, Failure
from homing.domain.policy import Stage
from homing.plugins import judge_as_is

GraphAnswer: TypeAlias = Literal["accepted", "retry", "abort"]

NO_CODE = -1
"""The connection broke or was never made: there was no answer."""

TOO_MANY_REQUESTS = 429

# A 401 that arrives here was the answer to a refreshed token, or to the refresh itself.
GRAPH_ANSWERS: dict[int, GraphAnswer] = {
    202: "accepted",
    400: "abort",
    401: "abort",
    403: "abort",
    408: "retry",
    409: "retry",
    425: "retry",
    TOO_MANY_REQUESTS: "retry",
    500: "retry",
    502: "retry",
    503: "retry",
    504: "retry",
    NO_CODE: "retry",
}
# For codes that are not in the table: only a 4xx says that the request itself is wrong.
_BY_HUNDRED: dict[int, GraphAnswer] = {4: "abort"}


def graph_answer(code: int) -> GraphAnswer:
    known = GRAPH_ANSWERS.get(code)
    return known or _BY_HUNDRED.get(code // 100, "retry")


def error_code(code: str | None) -> int:
    """The queue's error codes are whole numbers."""
    try:
        return NO_CODE if code is None else int(code)
    except ValueError:
        return NO_CODE


def judge(problem: Exception | Failure, stage: Stage) -> Failure:
    """By the code alone; a failure without one is unchanged."""
    failure = judge_as_is(problem, stage)
    if failure.code is None:
        return failure
    code = error_code(failure.code)
    return replace(
        failure,
        error_class=RATE_LIMITED if code == TOO_MANY_REQUESTS else failure.error_class,
        disposition="reject" if graph_answer(code) == "abort" else "retry",
    )
