"""The names that the design of the outbox gives to retries, terminal errors and failure cycles."""

from __future__ import annotations

import msgspec
from msgspec import Struct

from homing import Exponential, FullJitter, Retry, TerminalError
from homing.domain.delivery import Cycle
from homing.domain.errors import InvalidRequest
from homing.stores.layout import iso_utc, iso_utc_or_none, ms_from_iso

STAGE = "handle"


class TerminalHandlerError(TerminalError):
    """Raise a subclass of it in a handler if a retry cannot succeed."""


class RetryPolicy(Struct, frozen=True, kw_only=True):
    """A handler's own policy: give its `retry` and its `terminal_errors` to `homing.on`."""

    base_delay_s: float = 1.0
    multiplier: float = 2.0
    max_delay_s: float = 300.0
    max_attempts: int = 5
    terminal_errors: tuple[type[Exception], ...] = ()

    @property
    def retry(self) -> Retry:
        """The same waits and budget as the engine knows them."""
        curve = Exponential(
            initial_s=self.base_delay_s, multiplier=self.multiplier, max_s=self.max_delay_s
        )
        return Retry(FullJitter(curve), self.max_attempts)


DEFAULT_RETRY_POLICY = RetryPolicy()


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


def cycle_of(entry: object) -> Cycle:
    """The record of an entry, which may also be one that another program wrote."""
    try:
        cycle = msgspec.convert(entry, FailureCycle)
    except msgspec.ValidationError as error:
        raise InvalidRequest("failure_history", f"has a wrong entry: {error}") from None
    return Cycle(
        number=cycle.cycle,
        attempts=cycle.attempts,
        stage=STAGE,
        last_error=cycle.last_error,
        first_failed_at_ms=_ms_or_none(cycle.first_failed_at),
        failed_at_ms=_ms_or_none(cycle.failed_at),
        generation=cycle.generation,
        replayed_at_ms=ms_from_iso(cycle.replayed_at, "failure_history"),
        replayed_by=cycle.replayed_by,
        reason="imported",
    )


def _ms_or_none(text: str | None) -> int | None:
    return None if text is None else ms_from_iso(text, "failure_history")
