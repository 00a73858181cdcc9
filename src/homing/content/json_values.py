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


class _Copier:
    """Copies as it checks, so that a later change of the caller's value has no effect here."""

    def __init__(self, limits: Limits) -> None:
        self._depth = limits.json_depth
        self._limit = limits.variables_bytes
        self._size = 0

    def copy(self, value: object, field: str, depth: int = 1) -> Json:
        self._count(1, field)
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, str):
            return self._text(value, field)
        if isinstance(value, int | float):
            return _number(value, field)
        if depth > self._depth:
            raise InvalidRequest(field.partition(".")[0], f"is nested deeper than {self._depth}")
        if isinstance(value, Mapping):
            return self.copy_object(value, field, depth)
        if isinstance(value, Sequence) and not isinstance(value, bytes | bytearray | memoryview):
            items = enumerate(value)
            return [self.copy(item, f"{field}[{index}]", depth + 1) for index, item in items]
        raise InvalidRequest(field, f"must be JSON, not {type(value).__name__}")

    def copy_object(
        self, value: Mapping[object, object], field: str, depth: int
    ) -> dict[str, Json]:
        copied: dict[str, Json] = {}
        for key, item in value.items():
            if not isinstance(key, str):
                raise InvalidRequest(field, "must have text for names")
            name = self._text(key, field)
            copied[name] = self.copy(item, f"{field}.{name}", depth + 1)
        return copied

    def _text(self, value: str, field: str) -> str:
        check_body(value, field)
        self._count(len(value) if value.isascii() else len(value.encode()), field)
        return str(value)

    def _count(self, size: int, field: str) -> None:
        self._size += size
        if self._size > self._limit:
            raise too_large(field.partition(".")[0], self._size, self._limit, "bytes")


def copy_object(value: Mapping[str, object], field: str, limits: Limits) -> dict[str, Json]:
    """A JSON object of the caller's, checked and copied."""
    if not isinstance(value, Mapping):
        raise InvalidRequest(field, "must be an object")
    return _Copier(limits).copy_object(value, field, depth=1)  # type: ignore[arg-type]  # a Mapping is invariant in its key


def _number(value: float, field: str) -> int | float:
    if isinstance(value, int):
        if abs(value) > MAX_SAFE_INTEGER:
            raise InvalidRequest(field, "is a whole number beyond 2^53")
        return int(value)
    if not math.isfinite(value):
        raise InvalidRequest(field, "is not a number")
    return float(value)
