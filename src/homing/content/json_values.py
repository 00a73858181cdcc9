"""Template variables are JSON and nothing else: no object of the caller's reaches a template."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TypeAlias

from homing.content.characters import check_body
from homing.content.limits import Limits, too_large
from homing.domain.errors import InvalidRequest

Json: TypeAlias = "dict[str, Json] | list[Json] | str | int | float | bool | None"

MAX_SAFE_INTEGER = 2**53

# A field, or a place and the name or index within it. Written out for a refusal alone: names may
# be long, and the values below them many.
Place: TypeAlias = "str | tuple[Place, str | int]"


class _Copier:
    """Copies as it checks, so that a later change of the caller's value has no effect here."""

    def __init__(self, field: str, limits: Limits) -> None:
        self._field = field
        self._depth = limits.json_depth
        self._limit = limits.variables_bytes
        self._size = 0

    def copy(self, value: object, place: Place, depth: int = 1) -> Json:
        self._count(1)
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, str):
            return self._text(value, place)
        if isinstance(value, int | float):
            return _number(value, place)
        if depth > self._depth:
            raise InvalidRequest(self._field, f"is nested deeper than {self._depth}")
        if isinstance(value, Mapping):
            return self.copy_object(value, place, depth)
        if isinstance(value, Sequence) and not isinstance(value, bytes | bytearray | memoryview):
            items = enumerate(value)
            return [self.copy(item, (place, index), depth + 1) for index, item in items]
        raise InvalidRequest(_written(place), f"must be JSON, not {type(value).__name__}")

    def copy_object(
        self, value: Mapping[object, object], place: Place, depth: int
    ) -> dict[str, Json]:
        copied: dict[str, Json] = {}
        for key, item in value.items():
            if not isinstance(key, str):
                raise InvalidRequest(_written(place), "must have text for names")
            name = self._text(key, place)
            copied[name] = self.copy(item, (place, name), depth + 1)
        return copied

    def _text(self, value: str, place: Place) -> str:
        try:
            check_body(value, self._field)
        except InvalidRequest as error:
            raise InvalidRequest(_written(place), error.problem) from None
        self._count(len(value) if value.isascii() else len(value.encode()))
        return str(value)

    def _count(self, size: int) -> None:
        self._size += size
        if self._size > self._limit:
            raise too_large(self._field, self._size, self._limit, "bytes")


def copy_object(value: Mapping[str, object], field: str, limits: Limits) -> dict[str, Json]:
    """A JSON object of the caller's, checked and copied."""
    if not isinstance(value, Mapping):
        raise InvalidRequest(field, "must be an object")
    return _Copier(field, limits).copy_object(value, field, depth=1)  # type: ignore[arg-type]  # a Mapping is invariant in its key


def _number(value: float, place: Place) -> int | float:
    if isinstance(value, int):
        if abs(value) > MAX_SAFE_INTEGER:
            raise InvalidRequest(_written(place), "is a whole number beyond 2^53")
        return int(value)
    if not math.isfinite(value):
        raise InvalidRequest(_written(place), "is not a number")
    return float(value)


def _written(place: Place) -> str:
    if isinstance(place, str):
        return place
    parent, step = place
    return _written(parent) + (f"[{step}]" if isinstance(step, int) else f".{step}")
