"""Settings of a plugin: a Struct whose fields carry their own environment names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, get_type_hints

from msgspec import Meta, Struct
from msgspec.structs import fields

from homing.settings.leaves import opened
from homing.settings.masking import HIDDEN, shown


def env(
    variable: str, about: str, *, required: bool = False, secret: bool = False, **bounds: Any
) -> Meta:
    """For `Annotated`: the variable that sets a field, and what the field does.

    `required`: a program that delivers does not start without it. `secret`: it is never shown. Any
    variable may also be given as a file (`VARIABLE_FILE`). `bounds` are those of `msgspec.Meta`,
    such as `ge` and `le`.
    """
    extra = {"variable": variable, "required": required, "secret": secret}
    return Meta(description=about, extra=extra, **bounds)


class OwnName(Struct, frozen=True):
    """One field of a plugin's settings and what was said about it."""

    field: str
    variable: str
    kind: Any
    default: Any
    about: str
    required: bool
    secret: bool


def own_names(kind: type[Struct]) -> Mapping[str, OwnName]:
    """By environment variable; a field without one is a mistake of the author."""
    found: dict[str, OwnName] = {}
    for each in _fields(kind):
        if each.variable in found:
            raise ValueError(f"{kind.__name__}: {each.variable} names two fields")
        found[each.variable] = each
    return found


def shown_own(settings: Struct, origins: Mapping[str, str]) -> list[tuple[str, str, str]]:
    """Each variable, its value as it may be shown, and where that came from."""
    rows = []
    for variable, name in own_names(type(settings)).items():
        value = getattr(settings, name.field)
        text = HIDDEN if name.secret and value is not None else shown(variable, value)
        rows.append((variable, text, origins.get(name.field, "default")))
    return rows


def _fields(kind: type[Struct]) -> Iterator[OwnName]:
    hints = get_type_hints(kind, include_extras=True)
    for each in fields(kind):
        bare, meta = opened(hints[each.name])
        extra = (meta.extra if meta is not None else None) or {}
        if meta is None or "variable" not in extra:
            raise ValueError(f"{kind.__name__}.{each.name} names no variable: Annotated[…, env(…)]")
        yield OwnName(
            field=each.name,
            variable=str(extra["variable"]),
            kind=bare,
            default=each.default,
            about=meta.description or "",
            required=bool(extra["required"]),
            secret=bool(extra["secret"]),
        )
