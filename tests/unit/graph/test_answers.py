"""Every status has a meaning."""

import pytest

from homing.providers.graph.answers import failure_of, meaning_of, token_failure


@pytest.mark.parametrize(
    ("status", "error_class", "disposition", "maybe_sent"),
    [
        (200, "unexpected_answer", "retry", True),
        (302, "unexpected_answer", "retry", False),
        (400, "bad_request", "reject", False),
        (401, "auth_failed", "route_fault", False),
        (403, "forbidden", "route_fault", False),
        (408, "timed_out", "retry", False),
        (409, "conflict", "retry", False),
        (410, "refused", "reject", False),
        (413, "content_refused", "reject", False),
        (422, "refused", "reject", False),
        (425, "too_early", "retry", False),
        (429, "rate_limited", "retry", False),
        (500, "server_error", "retry", True),
        (502, "bad_gateway", "retry", True),
        (503, "unavailable", "retry", False),
        (504, "gateway_timeout", "retry", True),
        (599, "server_error", "retry", True),
    ],
)
def test_the_table(status: int, error_class: str, disposition: str, maybe_sent: bool) -> None:
    """O-022, O-036."""
    failure = failure_of(status, "said", None, sends=True)

    assert (failure.error_class, failure.disposition) == (error_class, disposition)
    assert (failure.maybe_sent, failure.code) == (maybe_sent, str(status))
    assert not failure_of(status, "said", None, sends=False).maybe_sent


def test_every_status_has_a_meaning() -> None:
    """O-036."""
    assert all(meaning_of(status).error_class for status in range(100, 1000))


@pytest.mark.parametrize(
    ("status", "error", "error_class", "code"),
    [
        (401, "", "token_revoked", "401"),
        (401, "invalid_client", "token_revoked", "401"),
        (400, "invalid_grant", "token_revoked", "401"),
        (400, "interaction_required", "token_revoked", "401"),
        (429, "temporarily_unavailable", "rate_limited", "429"),
        (503, "", "token_unavailable", "503"),
        (200, "", "token_unavailable", "200"),
    ],
)
def test_a_refused_refresh(status: int, error: str, error_class: str, code: str) -> None:
    """O-026, O-107."""
    failure = token_failure(status, error, "", None)

    assert (failure.error_class, failure.code) == (error_class, code)
    assert failure.disposition == ("route_fault" if code == "401" else "retry")
