"""Putting settings into a route: what was set takes the place of the route's own value."""

from __future__ import annotations

from typing import Any

import msgspec

from homing.domain.errors import SettingsError
from homing.domain.policy import (
    Exponential,
    FullJitter,
    Ladder,
    Retention,
    Retry,
    RetryAfter,
    Schedule,
    Stage,
)
from homing.engine.route import Route
from homing.settings.durations import Seconds
from homing.settings.tree import RetentionSettings, RetrySettings, RouteSettings


def apply_to(route: Route, given: RouteSettings) -> Route:
    """The route with what was set in its place."""
    plan = route.plan
    stages = tuple(_stage(stage, given) for stage in plan.stages)
    changes: dict[str, Any] = {"stages": stages}
    if given.on_doubt is not None:
        changes["on_doubt"] = given.on_doubt
    if given.on_route_fault is not None:
        changes["on_route_fault"] = given.on_route_fault
    if given.retention is not None:
        changes["retention"] = _retention(given.retention)
    plan = msgspec.structs.replace(plan, **changes)
    concurrency = given.concurrency or route.concurrency
    return msgspec.structs.replace(route, plan=plan, concurrency=concurrency)


def _stage(stage: Stage, given: RouteSettings) -> Stage:
    retry = stage.retry
    schedule, after = retry.schedule, retry.retry_after
    if given.retry is not None:
        schedule = _schedule(given.retry) or schedule
        after = RetryAfter(
            after.min_s if given.retry.after_min is None else given.retry.after_min.value,
            after.cap_s if given.retry.after_cap is None else given.retry.after_cap.value,
        )
    return msgspec.structs.replace(
        stage,
        retry=Retry(schedule, given.max_attempts or retry.max_attempts, after),
        timeout_s=stage.timeout_s if given.timeout is None else given.timeout.value,
    )


def _schedule(given: RetrySettings) -> Schedule | None:
    if given.ladder is not None and given.exponential is not None:
        raise SettingsError("retry", "give either ladder or exponential, not both")
    inner: Ladder | Exponential | None = None
    if given.ladder is not None:
        if not given.ladder:
            raise SettingsError("retry.ladder", "has no steps")
        inner = Ladder(tuple(step.value for step in given.ladder))
    elif given.exponential is not None:
        exponential = given.exponential
        max_s = None if exponential.max is None else exponential.max.value
        inner = Exponential(exponential.initial.value, exponential.multiplier, max_s)
    if inner is not None and given.jitter:
        return FullJitter(inner)
    return inner


def _retention(given: RetentionSettings) -> Retention:
    def of(value: Seconds | None) -> float | None:
        return None if value is None else value.value

    return Retention(
        delivered_s=of(given.delivered),
        dismissed_s=of(given.dismissed),
        payload_s=of(given.payload),
        attempts_s=of(given.attempts),
        key_s=of(given.key),
    )
