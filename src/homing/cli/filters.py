"""The conditions of a `DeliveryFilter` as options, and as `NAME=VALUE` texts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from homing.domain.errors import InvalidRequest
from homing.engine.ops.delivery_filter import FILTERS, DeliveryFilter, FilterField, filter_from
from homing.runtime.clock import SystemClock
from homing.settings import seconds


def options() -> dict[str, Any]:
    """An option for each condition, by name, as typer reads it."""
    return {field.name: _option(field) for field in FILTERS.values()}


def _option(field: FilterField) -> Any:
    about = field.about
    if field.choices:
        about = f"{about[:-1]}: {', '.join(field.choices)}."
    if field.is_time:
        about = f"{about[:-1]}: 2h for two hours ago, or 2026-11-16T08:00Z."
    return Annotated[str | None, typer.Option(help=about)]


def filter_of_options(given: Mapping[str, str | None]) -> DeliveryFilter:
    """The filter of the options that are given, by name."""
    texts = {
        name: _time(name, text) if FILTERS[name].is_time else text
        for name, text in given.items()
        if text is not None
    }
    try:
        return filter_from(texts)
    except InvalidRequest as error:
        raise InvalidRequest(f"--{error.field.replace('_', '-')}", error.problem) from None


def filter_of_conditions(conditions: Sequence[str]) -> DeliveryFilter:
    """From `NAME=VALUE` texts; the names are those of the options of `list`."""
    given: dict[str, str | None] = {}
    for condition in conditions:
        name, equals, value = condition.partition("=")
        field = name.strip().replace("-", "_")
        if field not in FILTERS or not equals or not value:
            known = ", ".join(each.replace("_", "-") for each in FILTERS)
            raise InvalidRequest(
                f"--filter {condition}", f"write NAME=VALUE; the names are {known}"
            )
        if field in given:
            raise InvalidRequest(f"--filter {condition}", f"{name} is given twice")
        given[field] = value
    return filter_of_options(given)


def _time(name: str, text: str) -> str:
    """A time, or a span before now, as a time with its zone."""
    try:
        since_ms = SystemClock().now_ms() - seconds(text) * 1000
        return datetime.fromtimestamp(since_ms / 1000, UTC).isoformat()
    except (ValueError, OverflowError):
        pass
    try:
        given = datetime.fromisoformat(text)
    except ValueError:
        option = name.replace("_", "-")
        raise InvalidRequest(
            f"--{option}", f"{text!r} is not a time; write 2h, 7d or 2026-11-16T08:00Z"
        ) from None
    return (given if given.tzinfo else given.replace(tzinfo=UTC)).isoformat()
