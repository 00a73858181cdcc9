"""Hypothesis strategies made from the domain's own types: a new field is covered at once.

Only what every store must be able to keep is drawn: text without NUL and lone surrogates, times
within the next thousand years, numbers that fit 32 bits.
"""

from __future__ import annotations

import types
import typing
from typing import Any, TypeVar

import msgspec
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

# The same examples in every run, whatever the disk's pace. The fixtures are one store for all
# examples of a case, and each store's class calls the same case: both are meant.
EXAMPLES = settings(
    max_examples=60,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[
        HealthCheck.differing_executors,
        HealthCheck.function_scoped_fixture,
        HealthCheck.too_slow,
    ],
)

T = TypeVar("T", bound=msgspec.Struct)

TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=20)
_TIME_MS = st.integers(0, 2**45)
_NUMBER = st.integers(0, 2**31 - 1)
_PRIORITY = st.integers(1, 4)
_PLAIN: dict[Any, st.SearchStrategy[Any]] = {
    str: TEXT,
    bool: st.booleans(),
    bytes: st.binary(max_size=64),
    float: st.floats(0, 1e9),
    type(None): st.none(),
}


def structs(struct: type[T], **fixed: st.SearchStrategy[Any]) -> st.SearchStrategy[T]:
    """Any value of this type; `fixed` draws single fields in another way."""
    hints = typing.get_type_hints(struct)
    return st.builds(
        struct,
        **{
            field.name: fixed.get(field.name) or _values(hints[field.name], field.name)
            for field in msgspec.structs.fields(struct)
        },
    )


def _values(hint: Any, name: str) -> st.SearchStrategy[Any]:
    if hint in _PLAIN:
        return _PLAIN[hint]
    if hint is int:
        return _TIME_MS if name.endswith("_ms") else _PRIORITY if name == "priority" else _NUMBER
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        return structs(hint)
    return _made_of(typing.get_origin(hint), typing.get_args(hint), name)


def _made_of(origin: Any, inside: tuple[Any, ...], name: str) -> st.SearchStrategy[Any]:
    if origin is typing.Literal:
        return st.sampled_from(inside)
    if origin in (types.UnionType, typing.Union):
        return st.one_of(*(_values(one, name) for one in inside))
    if origin is tuple:
        return st.lists(_values(inside[0], name), max_size=3).map(tuple)
    if origin is dict:
        return st.dictionaries(TEXT, _values(inside[1], name), max_size=3)
    raise TypeError(f"no strategy for {name}: {origin}")
