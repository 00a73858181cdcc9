"""The public names of events: retry policies, the error that ends a handler, failure cycles."""

from __future__ import annotations

from msgspec import Struct

from homing.domain.delivery import Cycle
from homing.engine.work.handler_retry import DEFAULT_RETRY_POLICY, RetryPolicy, TerminalHandlerError
from homing.stores.layout import iso_utc, iso_utc_or_none

__all__ = [
    "DEFAULT_RETRY_POLICY",
    "FailureCycle",
    "RetryPolicy",
    "TerminalHandlerError",
    "failure_cycle",
]


class FailureCycle(Struct, frozen=True, kw_only=True):
    """One finished round of attempts, as an entry of `failure_history` shows it.

    The shape may only gain fields.
    """

    cycle: int
    attempts: int
    last_error: str | None
    first_failed_at: str | None
    failed_at: str | None
    generation: int
    replayed_at: str
    replayed_by: str


def failure_cycle(cycle: Cycle) -> FailureCycle:
    """The entry of a delivery's own record of it."""
    return FailureCycle(
        cycle=cycle.number,
        attempts=cycle.attempts,
        last_error=cycle.last_error or cycle.error_class,
        first_failed_at=iso_utc_or_none(cycle.first_failed_at_ms),
        failed_at=iso_utc_or_none(cycle.failed_at_ms),
        generation=cycle.generation,
        replayed_at=iso_utc(cycle.replayed_at_ms),
        replayed_by=cycle.replayed_by,
    )
