"""The classification of answers of Microsoft Graph and its token endpoint, as data."""

from __future__ import annotations

from msgspec import Struct

from homing.domain.failure import RATE_LIMITED, TIMED_OUT, Disposition, Failure
from homing.domain.redaction import redact

# The stable classes of this provider's failures, beside those of the engine.
ANSWER_LOST = "answer_lost"
AUTH_FAILED = "auth_failed"
TOKEN_REVOKED = "token_revoked"  # noqa: S105 - a class of failure
UNREACHABLE = "unreachable"

ACCEPTED = 202
UNAUTHORIZED = 401


class Meaning(Struct, frozen=True):
    """`maybe_sent`: Graph may have accepted the mail before this answer was made."""

    error_class: str
    disposition: Disposition = "retry"
    maybe_sent: bool = False


# Of the calls that send. 202 is the only success, whatever headers come with it.
ANSWERS: dict[int, Meaning] = {
    400: Meaning("bad_request", "reject"),
    401: Meaning(AUTH_FAILED, "route_fault"),
    403: Meaning("forbidden", "route_fault"),
    404: Meaning("mailbox_not_found", "route_fault"),
    408: Meaning(TIMED_OUT),
    409: Meaning("conflict"),
    413: Meaning("content_refused", "reject"),
    425: Meaning("too_early"),
    429: Meaning(RATE_LIMITED),
    500: Meaning("server_error", maybe_sent=True),
    502: Meaning("bad_gateway", maybe_sent=True),
    503: Meaning("unavailable"),
    504: Meaning("gateway_timeout", maybe_sent=True),
    507: Meaning("mailbox_full"),
    509: Meaning(RATE_LIMITED),
}
# By the first digit, where the table has no row.
_UNLISTED: dict[int, Meaning] = {
    2: Meaning("unexpected_answer", maybe_sent=True),
    3: Meaning("unexpected_answer"),
    4: Meaning("refused", "reject"),
}
_STRANGE = Meaning("server_error", maybe_sent=True)

# Errors of the token endpoint (RFC 6749, 5.2, and Microsoft's own) that a person has to mend.
_NEEDS_A_PERSON = frozenset(
    {
        "consent_required",
        "interaction_required",
        "invalid_client",
        "invalid_grant",
        "invalid_request",
        "invalid_scope",
        "login_required",
        "unauthorized_client",
    }
)


def meaning_of(status: int) -> Meaning:
    return ANSWERS.get(status) or _UNLISTED.get(status // 100, _STRANGE)


def failure_of(status: int, detail: str, retry_after_s: float | None, *, sends: bool) -> Failure:
    """`sends`: the call was one that sends. Others leave no doubt, whatever they answer."""
    meaning = meaning_of(status)
    return Failure(
        meaning.error_class,
        meaning.disposition,
        code=str(status),
        detail=redact(detail),
        retry_after_s=retry_after_s,
        maybe_sent=meaning.maybe_sent and sends,
    )


def token_failure(status: int, error: str, detail: str, retry_after_s: float | None) -> Failure:
    """A refused refresh has the code 401, whatever the endpoint calls it: nothing is authorized."""
    said = redact(f"{error} {detail}".strip())
    if status == UNAUTHORIZED or error in _NEEDS_A_PERSON:
        return Failure(TOKEN_REVOKED, "route_fault", code=str(UNAUTHORIZED), detail=said)
    limited = status == 429
    return Failure(
        RATE_LIMITED if limited else "token_unavailable",
        code=str(status),
        detail=said,
        retry_after_s=retry_after_s,
    )
