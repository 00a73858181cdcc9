"""When to try again, and how often. Pure: the random number is an argument."""

from __future__ import annotations

import itertools
import math
from typing import Literal, Self, TypeAlias

from msgspec import Struct, field

from homing.domain.delivery import FailedBecause
from homing.domain.failure import RATE_LIMITED, Failure

DAY_S = 86_400.0
LONGEST_DELAY_S = 366 * DAY_S

OnUnknown: TypeAlias = Literal["retry", "hold"]
OnRouteFault: TypeAlias = Literal["pause", "fail", "retry"]


class Ladder(Struct, frozen=True, tag=True):
    """Fixed steps. `steps_s[0]` is the wait before attempt number `first`; the last repeats."""

    steps_s: tuple[float, ...]
    first: int = 2

    def ceiling_s(self, attempt: int) -> float:
        """The longest wait before counted attempt number `attempt`."""
        if not self.steps_s or attempt < self.first:
            return 0.0
        return self.steps_s[min(attempt - self.first, len(self.steps_s) - 1)]

    def delay_s(self, attempt: int, roll: float) -> float:
        """The wait before counted attempt number `attempt`."""
        del roll  # a ladder is exact
        return self.ceiling_s(attempt)


class Exponential(Struct, frozen=True, tag=True):
    """`initial_s` before attempt number `first`, multiplied for each one after it."""

    initial_s: float
    multiplier: float = 2.0
    max_s: float | None = None
    first: int = 2

    def ceiling_s(self, attempt: int) -> float:
        """The longest wait before counted attempt number `attempt`."""
        if attempt < self.first:
            return 0.0
        try:
            ceiling_s = self.initial_s * self.multiplier ** (attempt - self.first)
        except OverflowError:
            ceiling_s = LONGEST_DELAY_S
        return ceiling_s if self.max_s is None else min(ceiling_s, self.max_s)

    def delay_s(self, attempt: int, roll: float) -> float:
        """The wait before counted attempt number `attempt`."""
        del roll  # no jitter
        return self.ceiling_s(attempt)


class FullJitter(Struct, frozen=True, tag=True):
    """Uniform between `floor_s` and the ceiling of the schedule inside, drawn per attempt."""

    within: Ladder | Exponential
    floor_s: float = 0.0

    def ceiling_s(self, attempt: int) -> float:
        """The longest wait before counted attempt number `attempt`."""
        return self.within.ceiling_s(attempt)

    def delay_s(self, attempt: int, roll: float) -> float:
        """The wait before counted attempt number `attempt`; `roll` is uniform in [0, 1)."""
        ceiling_s = self.within.ceiling_s(attempt)
        floor_s = min(self.floor_s, ceiling_s)
        return floor_s + roll * (ceiling_s - floor_s)


Schedule: TypeAlias = Ladder | Exponential | FullJitter


class RetryAfter(Struct, frozen=True):
    """How long to wait when a provider asks for it (Retry-After).

    The wait is never shorter than requested unless `cap_s` is set. `min_s` applies to rate limits
    even when the provider names no time.
    """

    min_s: float = 0.0
    cap_s: float | None = None

    def apply(self, delay_s: float, failure: Failure) -> float:
        """The wait after this failure, where the schedule alone gives `delay_s`."""
        wish_s = failure.retry_after_s or 0.0
        if self.cap_s is not None:
            wish_s = min(wish_s, self.cap_s)
        if failure.error_class == RATE_LIMITED:
            wish_s = max(self.min_s, wish_s)
        return max(delay_s, wish_s)  # in this order: a NaN changes nothing


class Retry(Struct, frozen=True):
    """A stage's budget and schedule. `max_attempts` counts per stage and cycle."""

    schedule: Schedule = Exponential(initial_s=1.0, max_s=60.0)
    max_attempts: int = 5
    retry_after: RetryAfter = RetryAfter()

    def delay_ms(self, attempt: int, failure: Failure, roll: float) -> int:
        """The wait before counted attempt number `attempt`, after `failure`."""
        own_s = self.schedule.delay_s(attempt, roll)
        delay_s = self.retry_after.apply(own_s, failure)
        # Rounded up: never early. Bounded: a provider may ask for an absurd time.
        return math.ceil(min(delay_s, LONGEST_DELAY_S) * 1000)


class Stage(Struct, frozen=True, kw_only=True):
    """One step of the plan.

    `quiet` stages add a row to the attempt ledger only when they fail. `sends` stages use a
    provider, with the durable mark between prepare and commit. `idempotent` stages may be repeated
    after a write conflict.
    """

    name: str
    retry: Retry = Retry()
    timeout_s: float = 30.0
    sends: bool = False
    quiet: bool = False
    idempotent: bool = True


class Retention(Struct, frozen=True):
    """How long each class of record is kept after its end, in seconds; None: for ever.

    All plans of a route have the same times, but for `key_s` and `dead_letter_s`.
    """

    delivered_s: float | None = 30 * DAY_S
    dismissed_s: float | None = 30 * DAY_S
    failed_s: float | None = 90 * DAY_S
    failed_payload_s: float | None = 90 * DAY_S
    payload_s: float | None = 7 * DAY_S
    attempts_s: float | None = 90 * DAY_S
    key_s: float | None = 7 * DAY_S
    # A dead letter that a design keeps as a record of its own.
    dead_letter_s: float | None = 90 * DAY_S

    @classmethod
    def forever(cls) -> Self:
        """Retention that removes nothing."""
        return cls(**dict.fromkeys(cls.__struct_fields__))


class Plan(Struct, frozen=True, kw_only=True):
    """The rules for the deliveries of a route: everything that transitions know about it."""

    stages: tuple[Stage, ...]
    on_unknown: OnUnknown = "retry"
    # After so many sends in doubt in one cycle `retry` becomes `hold`; None: the budget bounds it.
    max_doubtful_sends: int | None = None
    on_route_fault: OnRouteFault = "pause"
    inline_counts: bool = True
    # A retry that is due at once is made in the same inline call, as attempts of the worker are.
    inline_retries_at_once: bool = False
    interrupted_counts: bool = False
    max_crashes: int = 5
    doubt_patience_s: float = 3600.0
    keep_delivered: bool = True
    notify_on_failed: tuple[str, ...] = ("alert",)
    notify_on_delivered: tuple[str, ...] = ()
    retention: Retention = Retention()
    # Extra notices by the reason of the failure, e.g. a page for a code defect.
    notify_by_reason: dict[FailedBecause, tuple[str, ...]] = field(default_factory=dict)
    notify_by_class: dict[str, tuple[str, ...]] = field(default_factory=dict)
    # When a replay fails again with the same error class as the cycle before.
    notify_on_repeat: tuple[str, ...] = ()

    def stage(self, name: str) -> Stage:
        """The stage of this name."""
        for stage in self.stages:
            if stage.name == name:
                return stage
        raise LookupError(f"the plan has no stage {name!r}")

    def stage_after(self, name: str) -> Stage | None:
        """The stage that follows; None after the last one."""
        for stage, following in itertools.pairwise(self.stages):
            if stage.name == name:
                return following
        return None

    @property
    def first_stage(self) -> Stage:
        """Where a new delivery begins."""
        return self.stages[0]
