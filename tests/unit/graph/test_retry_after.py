"""Retry-After as seconds, as a date, and as nonsense."""

import pytest

from homing.providers.graph.retry_after import retry_after_s

DATE = "Mon, 16 Nov 2026 12:00:00 GMT"


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        (None, None),
        ("120", 120.0),
        (" 7 ", 7.0),
        ("Mon, 16 Nov 2026 12:02:00 GMT", 120.0),
        ("Mon, 16 Nov 2026 11:00:00 GMT", 0.0),
        ("soon", None),
        ("-5", None),
        ("1e3", None),
        ("999999999999999999", None),
        ("", None),
    ],
)
def test_seconds_and_dates_are_read(value: str | None, seconds: float | None) -> None:
    """O-029, O-030."""
    assert retry_after_s(value, DATE) == seconds
