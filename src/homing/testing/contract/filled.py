"""Values with every field set, made from their types: a new field is covered at once."""

from __future__ import annotations

import types
import typing
from typing import Any, TypeVar

import msgspec

from homing.domain.delivery import FIRST_PRIORITY, Delivery

T = TypeVar("T", bound=msgspec.Struct)


def filled(struct: type[T], **fixed: Any) -> T:
    """No field has its default value, and no two texts or numbers are alike."""
    hints = typing.get_type_hints(struct)
    values = {
        field.name: _value(hints[field.name], field, number)
        for number, field in enumerate(msgspec.structs.fields(struct), 101)
    }
    return struct(**(values | fixed))


def filled_delivery(delivery_id: str, **fixed: Any) -> Delivery:
    """A dead letter, with no open children: their count is the store's own."""
    values = {"state": "failed", "priority": FIRST_PRIORITY, "open_children": 0}
    return filled(Delivery, **({"id": delivery_id} | values | fixed))


def _value(hint: Any, field: msgspec.structs.FieldInfo, number: int) -> Any:
    text = f"{field.name} {number}"
    plain = {str: text, int: number, float: number + 0.5, bool: field.default is False}
    if hint in plain:
        return plain[hint]
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        return filled(hint)
    origin, inside = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Literal:
        return next(word for word in reversed(inside) if word != field.default)
    if origin is tuple:
        return tuple(_value(inside[0], field, number + n) for n in range(2))
    if origin is dict:
        return {f"{text} ü": _value(inside[1], field, number)}
    if origin in (types.UnionType, typing.Union):
        return _value(next(one for one in inside if one is not types.NoneType), field, number)
    raise TypeError(f"no value for {field.name}: {hint}")
