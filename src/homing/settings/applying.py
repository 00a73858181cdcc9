"""Applies settings to a route, and reads the settings in force from a route."""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from homing.domain.policy import (
    Exponential,
    FullJitter,
    Ladder,
    Plan,
    Retention,
    Retry,
    RetryAfter,
    Schedule,
    Stage,
)
from homing.engine.route import Route
from homing.settings.durations import Seconds, Term
from homing.settings.tree import (
    ExponentialSettings,
    RetentionSettings,
    RetrySettings,
    RouteSettings,
)


def apply_to(route: Route, given: RouteSettings) -> Route:
    """The route with the given settings instead of its own values, in each of its plans."""
    changed = route.with_plans(lambda plan: _plan(plan, given))
    return replace(changed, concurrency=given.concurrency or route.concurrency)


def _plan(plan: Plan, given: RouteSettings) -> Plan:
    return replace(
        plan,
        stages=tuple(_stage(stage, given) for stage in plan.stages),
        on_unknown=given.on_unknown or plan.on_unknown,
        on_route_fault=given.on_route_fault or plan.on_route_fault,
        retention=_retention(plan.retention, given.retention or RetentionSettings()),
    )


def in_force(route: Route) -> RouteSettings:
    """The values of this route as settings; of several stages, those of the last one."""
    plan, stage = route.plan, route.plan.stages[-1]
    retry, after = stage.retry, stage.retry.retry_after
    inner = retry.schedule.within if isinstance(retry.schedule, FullJitter) else retry.schedule
    return RouteSettings(
        retry=RetrySettings(
            ladder=tuple(map(Seconds, inner.steps_s)) if isinstance(inner, Ladder) else None,
            exponential=None if isinstance(inner, Ladder) else _growing(inner),
            jitter=isinstance(retry.schedule, FullJitter),
            retry_after_min=Seconds(after.min_s),
            retry_after_max=_time(after.cap_s),
        ),
        max_attempts=retry.max_attempts,
        on_unknown=plan.on_unknown,
        on_route_fault=plan.on_route_fault,
        timeout=Seconds(stage.timeout_s),
        concurrency=route.concurrency,
        retention=RetentionSettings(
            **{
                name.removesuffix("_s"): Term(value)
                for name, value in msgspec.structs.asdict(plan.retention).items()
            }
        ),
    )


def _stage(stage: Stage, given: RouteSettings) -> Stage:
    own, wish = stage.retry, given.retry or RetrySettings()
    after_min_s = (
        own.retry_after.min_s if wish.retry_after_min is None else wish.retry_after_min.value
    )
    after = RetryAfter(after_min_s, _or(wish.retry_after_max, own.retry_after.cap_s))
    retry = Retry(_schedule(own.schedule, wish), given.max_attempts or own.max_attempts, after)
    timeout_s = stage.timeout_s if given.timeout is None else given.timeout.value
    return replace(stage, retry=retry, timeout_s=timeout_s)


def _schedule(own: Schedule, wish: RetrySettings) -> Schedule:
    jitter = isinstance(own, FullJitter) if wish.jitter is None else wish.jitter
    inner = own.within if isinstance(own, FullJitter) else own
    if wish.ladder is not None:
        inner = Ladder(tuple(step.value for step in wish.ladder))
    elif wish.exponential is not None:
        growing = wish.exponential
        inner = Exponential(growing.initial.value, growing.multiplier, _or(growing.max, None))
    if not jitter:
        return inner
    floor_s = own.floor_s if isinstance(own, FullJitter) else 0.0
    return FullJitter(inner, floor_s)


def _retention(own: Retention, wish: RetentionSettings) -> Retention:
    given = msgspec.structs.asdict(wish)
    return Retention(
        **{
            name: _or(given[name.removesuffix("_s")], value)
            for name, value in msgspec.structs.asdict(own).items()
        }
    )


def _growing(schedule: Exponential) -> ExponentialSettings:
    return ExponentialSettings(
        Seconds(schedule.initial_s), schedule.multiplier, _time(schedule.max_s)
    )


def _time(value_s: float | None) -> Seconds | None:
    return None if value_s is None else Seconds(value_s)


def _or(wish: Seconds | Term | None, own: float | None) -> float | None:
    return own if wish is None else wish.value
