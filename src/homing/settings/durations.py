"""Durations as people write them: 30, 1.5s, 5m, 2h, 7d, 1h30m."""

from __future__ import annotations

import math
import re

_UNITS_S = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_NUMBER = r"[0-9]+(?:\.[0-9]+)?"
_DURATION = re.compile(rf"({_NUMBER})(ms|s|m|h|d)")
FOREVER = "forever"
LONGEST_S = 100 * 366 * 86400.0


class Seconds:
    """A duration in a setting: `30`, `"1.5s"`, `"5m"`, `"2h"`, `"7d"`, `"1h30m"`."""

    __slots__ = ("value",)

    def __init__(self, value: float) -> None:
        self.value = value

    def __repr__(self) -> str:
        return span(self.value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Seconds) and other.value == self.value

    def __hash__(self) -> int:
        return hash(self.value)


class Term:
    """How long something is kept: a duration, or `"forever"`, whose `value` is None."""

    __slots__ = ("value",)

    def __init__(self, value: float | None) -> None:
        self.value = value

    def __repr__(self) -> str:
        return FOREVER if self.value is None else span(self.value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Term) and other.value == self.value

    def __hash__(self) -> int:
        return hash(self.value)


def seconds(text: str | float) -> float:
    """A duration as people write it, in seconds."""
    if isinstance(text, int | float) or re.fullmatch(_NUMBER, text):
        number = float(text)
    else:
        parts = _DURATION.findall(text)
        if not parts or "".join(amount + unit for amount, unit in parts) != text:
            raise ValueError(f"{text!r} is not a duration; write 30, 1.5s, 5m, 2h, 7d or 1h30m")
        number = math.fsum(float(amount) * _UNITS_S[unit] for amount, unit in parts)
    if not 0 <= number <= LONGEST_S:
        raise ValueError("a duration must not be negative or longer than a hundred years")
    return number


def span(time_s: float) -> str:
    """As people write it: `1h30m`; what is read back is the same to the millisecond."""
    whole_s, rest_ms = divmod(round(time_s * 1000), 1000)
    parts = [
        (whole_s // 86400, "d"),
        (whole_s // 3600 % 24, "h"),
        (whole_s // 60 % 60, "m"),
        (whole_s % 60, "s"),
        (rest_ms, "ms"),
    ]
    return "".join(f"{amount}{unit}" for amount, unit in parts if amount) or "0s"
