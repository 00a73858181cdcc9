"""Deliveries as CSV, for spreadsheets."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable
from datetime import UTC, datetime

from homing.domain.redaction import visible
from homing.engine.ops.views import DeliveryView

COLUMNS = (
    "delivery_id",
    "route",
    "source",
    "idempotency_key",
    "status",
    "state",
    "failed_because",
    "attempts",
    "max_attempts",
    "error_class",
    "error_code",
    "last_error",
    "recipients",
    "topic",
    "created_at",
    "next_attempt_at",
    "ended_at",
)
# A spreadsheet interprets a cell that begins like this as a formula, and may run it; in some
# languages the wide forms, too. Where semicolons separate cells, one may begin after each.
_FORMULA = re.compile(r"(^|[;|])(?=\s*[=+@\-\uff1d\uff0b\uff20\uff0d])")


def csv_head() -> str:
    return _lines([COLUMNS])


def csv_rows(views: Iterable[DeliveryView]) -> str:
    return _lines(_row(view) for view in views)


def _row(view: DeliveryView) -> tuple[str, ...]:
    given = {
        "recipients": " ".join(recipient.address for recipient in view.recipients),
        "created_at": _iso(view.created_at_ms),
        "next_attempt_at": _iso(view.next_attempt_at_ms),
        "ended_at": _iso(view.ended_at_ms),
    }
    cells = (given[name] if name in given else getattr(view, name) for name in COLUMNS)
    return tuple(_cell(cell) for cell in cells)


def _cell(value: object) -> str:
    text = "" if value is None else visible(str(value))
    return _FORMULA.sub(r"\1'", text)


def _iso(at_ms: int | None) -> str:
    if at_ms is None:
        return ""
    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="milliseconds")


def _lines(rows: Iterable[Iterable[str]]) -> str:
    text = io.StringIO()
    csv.writer(text).writerows(rows)
    return text.getvalue()
