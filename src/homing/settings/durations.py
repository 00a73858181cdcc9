"""Durations as people write them: 30, 1.5s, 5m, 2h, 7d, 1h30m."""

from __future__ import annotations

import re

_UNITS_S = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")


class Seconds:
    """A duration in a setting: `30`, `"1.5s"`, `"5m"`, `"2h"`, `"7d"`, `"1h30m"`."""

    __slots__ = ("value",)

    def __init__(self, value: float) -> None:
        self.value = value

    def __repr__(self) -> str:
        return f"{self.value:g}s"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Seconds) and other.value == self.value

    def __hash__(self) -> int:
        return hash(self.value)


def seconds(text: str | float) -> float:
    """A duration as people write it, in seconds."""
    if isinstance(text, int | float) or re.fullmatch(r"\d+(\.\d+)?", text):
        number = float(text)
    else:
        parts = _DURATION.findall(text)
        if not parts or "".join(a + b for a, b in parts) != text:
            raise ValueError(f"{text!r} is no duration; write 30, 1.5s, 5m, 2h, 7d or 1h30m")
        number = sum(float(amount) * _UNITS_S[unit] for amount, unit in parts)
    if number < 0:
        raise ValueError("a duration is not negative")
    return number
