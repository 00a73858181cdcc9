"""Every single setting by its dotted name: what it takes, its default, and what it does."""

from __future__ import annotations

import types
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from msgspec import NODEFAULT, Meta, Struct
from msgspec.structs import fields

from homing.settings.durations import Seconds, Term
from homing.settings.tree import Settings

# Stands for the name of any route, or any domain.
ANY = "<name>"


class Leaf(Struct, frozen=True):
    """One setting. `kind` is the type without its None."""

    name: str
    kind: Any
    default: Any
    about: str
    bounds: Meta | None = None

    @property
    def variable(self) -> str:
        return "HOMING_" + self.name.upper().replace(".", "__")


def leaves(kind: type[Struct] = Settings, prefix: str = "") -> Iterator[Leaf]:
    """All settings, in the order of the tree."""
    hints = get_type_hints(kind, include_extras=True)
    for each in fields(kind):
        name = f"{prefix}{each.name}"
        bare, meta = opened(hints[each.name])
        if isinstance(bare, type) and issubclass(bare, Struct):
            yield from leaves(bare, f"{name}.")
        elif get_origin(bare) is dict:
            yield from leaves(get_args(bare)[1], f"{name}.{ANY}.")
        else:
            about = (meta.description if meta is not None else None) or ""
            yield Leaf(name, bare, each.default, about, meta)


def values(value: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Every single setting of a tree with its value."""
    items: Mapping[str, Any] | None = None
    if isinstance(value, Struct):
        items = {name: getattr(value, name) for name in value.__struct_fields__}
    elif isinstance(value, dict):
        items = value
    if items is None:
        yield prefix, value
        return
    for name, item in items.items():
        yield from values(item, f"{prefix}.{name}" if prefix else name)


def takes(leaf: Leaf) -> str:
    """What may be given, in words."""
    listed = get_args(leaf.kind)[:1] if get_origin(leaf.kind) is tuple else ()
    if any(get_origin(kind) is Literal for kind in (leaf.kind, *listed)):
        of = listed[0] if listed else leaf.kind
        return ("list of " if listed else "") + ", ".join(f"`{word}`" for word in get_args(of))
    words = {
        str: "text",
        bool: "true or false",
        int: "whole number",
        float: "number",
        Seconds: "duration",
        Term: "duration or `forever`",
        tuple[Seconds, ...]: "list of durations",
        tuple[str, ...]: "list of texts",
    }
    word = words[leaf.kind]
    if leaf.bounds is None or leaf.bounds.le is None:
        return word
    return f"{word}, {leaf.bounds.ge:,} to {leaf.bounds.le:,}"


def right_value(kind: Any, default: Any) -> str:
    """What would be right, for the message about a wrong value."""
    if get_origin(kind) is Literal:
        return f"use one of {', '.join(get_args(kind))}"
    if default in (None, NODEFAULT) or isinstance(default, tuple):
        examples = {str: "text", bool: "true", int: "5", float: "2.0", Seconds: "5m", Term: "30d"}
        shown = examples.get(kind, '["1m", "5m"]' if kind == tuple[Seconds, ...] else '["a", "b"]')
    else:
        shown = str(default).lower() if kind is bool else str(default)
    return f"write a value such as {shown}"


def opened(hint: Any) -> tuple[Any, Meta | None]:
    """The type itself, and what is said about it, whichever is wrapped in which."""
    if get_origin(hint) is Annotated:
        bare, *notes = get_args(hint)
        meta = next((note for note in notes if isinstance(note, Meta)), None)
        return opened(bare)[0], meta
    if get_origin(hint) in (Union, types.UnionType):
        [hint] = [part for part in get_args(hint) if part is not type(None)]
        return opened(hint)
    return hint, None
