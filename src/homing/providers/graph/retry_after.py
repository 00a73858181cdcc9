"""The header Retry-After: seconds or a date (RFC 9110)."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

# A longer wait is a mistake of the server; the plan's own schedule is better.
LONGEST_S = 7 * 24 * 3600.0


def retry_after_s(value: str | None, date: str | None) -> float | None:
    """None where it says nothing usable. `date` is the answer's own Date header."""
    if value is None:
        return None
    value = value.strip()
    if value.isascii() and value.isdigit():
        seconds = float(value[:12])
    else:
        at = timestamp_of(value)
        if at is None:
            return None
        # The server's clock made both, so that ours does not matter.
        now = timestamp_of(date or "")
        seconds = max(at - (time.time() if now is None else now), 0.0)
    return seconds if seconds <= LONGEST_S else None


def timestamp_of(value: str) -> float | None:
    try:
        at = parsedate_to_datetime(value)
    except ValueError:
        return None
    return (at if at.tzinfo is not None else datetime.replace(at, tzinfo=UTC)).timestamp()
