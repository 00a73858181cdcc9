"""Nine kinds of failure, as data: what is tried again, and what waits for a person."""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from homing.domain.failure import TIMED_OUT, Disposition, Failure
from homing.domain.policy import Stage
from homing.plugins import classify_exception

NETWORK_TIMEOUT = "NETWORK_TIMEOUT"
WRITE_CONFLICT = "WRITE_CONFLICT"
RUNTIME_BUG = "RUNTIME_BUG"
POLICY_UNEXPECTED = "POLICY_UNEXPECTED"


class Upstream(Exception):
    """Raised by a stage: what an upstream answered, as an HTTP status or a word of its own."""

    def __init__(
        self, code: str | int, detail: str = "", retry_after_s: float | None = None
    ) -> None:
        super().__init__(detail or str(code))
        self.code = str(code)
        self.retry_after_s = retry_after_s


class Category(Struct, frozen=True, kw_only=True):
    """One class of failures with the answers and the exceptions that belong to it."""

    error_class: str
    disposition: Disposition
    codes: frozenset[str] = frozenset()
    exceptions: frozenset[str] = frozenset()


CATEGORIES: tuple[Category, ...] = (
    Category(
        error_class=NETWORK_TIMEOUT,
        disposition="retry",
        codes=frozenset({"408", "502", "503", "504"}),
        exceptions=frozenset({"TimeoutError", "ConnectionError", "gaierror"}),
    ),
    Category(
        error_class="RATE_LIMITED",
        disposition="retry",
        codes=frozenset({"429", "rate_limit_exceeded", "quota_exceeded"}),
    ),
    Category(
        error_class="UPSTREAM_ERROR",
        disposition="retry",
        codes=frozenset({"internal_error", "5xx"}),
    ),
    # Safe only where the stage may be repeated: see `judge`.
    Category(
        error_class=WRITE_CONFLICT,
        disposition="retry",
        codes=frozenset({"409", "412", "duplicate_write", "version_conflict"}),
    ),
    Category(
        error_class="SCHEMA_INVALID",
        disposition="reject",
        codes=frozenset({"400", "422", "missing_field", "malformed_json", "schema_mismatch"}),
        exceptions=frozenset({"DecodeError", "JSONDecodeError", "ValidationError"}),
    ),
    Category(
        error_class="AUTH_DENIED",
        disposition="reject",
        codes=frozenset({"401", "403", "invalid_api_key", "expired_token"}),
        exceptions=frozenset({"PermissionError"}),
    ),
    Category(
        error_class="NOT_FOUND",
        disposition="reject",
        codes=frozenset({"404", "410", "channel_deleted"}),
        exceptions=frozenset({"FileNotFoundError"}),
    ),
    Category(
        error_class="POLICY_REJECTED",
        disposition="reject",
        codes=frozenset({"moderation_blocked", "policy_denied"}),
    ),
    Category(
        error_class=POLICY_UNEXPECTED,
        disposition="reject",
        codes=frozenset({"policy_unexpected"}),
    ),
)
# An error that fits no other class is a bug of ours: it is not tried again and raises an alert.
DEFAULT = Category(error_class=RUNTIME_BUG, disposition="reject")

_BY_CODE = {code: category for category in CATEGORIES for code in category.codes}
_BY_EXCEPTION = {name: category for category in CATEGORIES for name in category.exceptions}


def category_of(error: BaseException) -> Category:
    if isinstance(error, Upstream):
        return category_of_code(error.code)
    for error_type in type(error).__mro__:
        category = _BY_EXCEPTION.get(error_type.__name__)
        if category is not None:
            return category
    return DEFAULT


def category_of_code(code: str) -> Category:
    known = _BY_CODE.get(code)
    if known is not None:
        return known
    is_server_error = len(code) == 3 and code.isdigit() and code.startswith("5")
    return _BY_CODE["5xx"] if is_server_error else DEFAULT


def classify(error: Exception) -> Failure:
    """Every failure gets exactly one class; the trace is kept without secrets."""
    category = category_of(error)
    upstream = error if isinstance(error, Upstream) else None
    return replace(
        classify_exception(error),
        error_class=category.error_class,
        disposition=category.disposition,
        code=upstream.code if upstream else None,
        retry_after_s=upstream.retry_after_s if upstream else None,
    )


def judge(problem: Exception | Failure, stage: Stage) -> Failure:
    """A write conflict may be tried again only where doing the work twice does no harm. A
    recipient on a suppression list has not been told."""
    failure = classify(problem) if isinstance(problem, Exception) else problem
    if failure.disposition == "suppress":
        return replace(failure, disposition="reject")
    if failure.error_class == TIMED_OUT:
        return replace(failure, error_class=NETWORK_TIMEOUT)
    if failure.error_class == WRITE_CONFLICT and not stage.idempotent:
        return replace(failure, disposition="reject")
    return failure
