"""Sentry: every dead letter as an event, its attempts as breadcrumbs; no address, no content."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, TypeAlias

from sentry_sdk import Client
from sentry_sdk.transport import HttpTransport

from homing.domain.delivery import Attempt, Delivery
from homing.observers import SENTRY
from homing.ports import Notice

FLUSH_S = 5.0

Fields: TypeAlias = Mapping[str, str | int | None]


class SentryReports:
    """Reports the dead letters of routes that have the notice `sentry`, once per cycle."""

    notices: Collection[str] = frozenset({SENTRY})
    most_at_once = 1

    def __init__(self, dsn: str) -> None:
        """An invalid DSN raises ValueError. Only the dead letters given to `notify` are reported.

        `fields` may have, by route, what its reports tell beside the names and numbers of all;
        where it says None there is no report.
        """
        self.fields: dict[str, Callable[[Delivery], Awaitable[Fields | None]]] = {}
        self._client = Client(
            dsn=dsn,
            transport=_Transport,
            default_integrations=False,
            auto_enabling_integrations=False,
            server_name="homing",
            send_client_reports=False,
        )

    async def notify(self, kind: str, group: Sequence[Notice]) -> Sequence[bool]:
        """False if the event did not arrive; the call is then repeated later."""
        del kind
        return [await self._is_reported(notice.delivery, notice.attempts) for notice in group]

    async def _is_reported(self, delivery: Delivery, attempts: Sequence[Attempt]) -> bool:
        describe = self.fields.get(delivery.route)
        fields = None if describe is None else await describe(delivery)
        if describe is not None and fields is None:
            return True
        return await asyncio.to_thread(self._report, event_of(delivery, attempts, fields))

    def _report(self, event: Any) -> bool:
        transport = self._client.transport
        if not isinstance(transport, _Transport):
            return True  # dropped by Sentry's own rules: a repeat would be dropped too
        lost = transport.lost
        self._client.capture_event(event)
        self._client.flush(FLUSH_S)
        return transport.lost == lost

    def close(self) -> None:
        self._client.close(FLUSH_S)


class _Transport(HttpTransport):
    """Knows when an event did not arrive."""

    lost = 0

    def on_dropped_event(self, _reason: str) -> None:
        self.lost += 1


def event_of(
    delivery: Delivery, attempts: Sequence[Attempt], fields: Fields | None = None
) -> dict[str, Any]:
    """Names and numbers, and a route's own fields. The id is fixed: Sentry drops a repetition."""
    error_class = delivery.failure.error_class if delivery.failure else "-"
    because = delivery.failed_because or "-"
    identity = f"{delivery.id}/{delivery.cycle}".encode()
    return {
        "event_id": hashlib.sha256(identity).hexdigest()[:32],
        "timestamp": _when(delivery.ended_at_ms or delivery.updated_at_ms),
        "level": "error",
        "logger": "homing.dead_letters",
        "message": f"dead letter on {delivery.route}: {because}, {error_class}",
        "fingerprint": ["homing", delivery.route, because, error_class],
        "tags": {
            "route": delivery.route,
            "stage": delivery.stage,
            "failed_because": because,
            "error_class": error_class,
            "code": (delivery.failure.code if delivery.failure else None) or "-",
        },
        "extra": {
            "delivery_id": delivery.id,
            "cycle": delivery.cycle,
            "attempts": delivery.attempts_spent,
            "maybe_duplicate": delivery.maybe_duplicate,
            **(fields or {}),
        },
        "breadcrumbs": {
            "values": [
                *(_breadcrumb(attempt) for attempt in attempts),
                *([] if fields is None else [_last_breadcrumb(delivery, fields)]),
            ]
        },
    }


def _last_breadcrumb(delivery: Delivery, fields: Fields) -> dict[str, Any]:
    return {
        "type": "default",
        "category": "failed",
        "level": "error",
        "timestamp": _when(delivery.ended_at_ms or delivery.updated_at_ms),
        "message": f"{delivery.route} failed",
        "data": dict(fields),
    }


def _breadcrumb(attempt: Attempt) -> dict[str, Any]:
    good = attempt.status in ("done", "suppressed")
    return {
        "type": "default",
        "category": "attempt",
        "level": "info" if good else "warning",
        "timestamp": _when(attempt.ended_at_ms or 0),
        "message": f"attempt {attempt.number} ({attempt.stage}): {attempt.status}",
        "data": {"error_class": attempt.error_class, "code": attempt.code, "cycle": attempt.cycle},
    }


def _when(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat()
