"""Reading a plugin's own settings from the environment. A wrong or unknown one is named."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Generic, TypeVar

import msgspec
from msgspec import Struct

from homing.domain.errors import SettingsError
from homing.domain.known_secrets import mask_secret
from homing.settings.environment import FILE_SUFFIX, plain_value, secret_file
from homing.settings.leaves import right_value
from homing.settings.loading import decode
from homing.settings.own_names import OwnName, own_names

S = TypeVar("S", bound=Struct)


class Own(Struct, Generic[S], frozen=True):
    """A plugin's settings, and for each field that was given, its variable."""

    settings: S
    origins: dict[str, str]


def load_own(
    kind: type[S],
    prefixes: tuple[str, ...] = (),
    *,
    environ: Mapping[str, str] | None = None,
    demand: bool = True,
) -> Own[S]:
    """With `demand`, required settings must be given."""
    environ = os.environ if environ is None else environ
    names = own_names(kind)
    _refuse_unknown(names, prefixes, environ)
    values: dict[str, Any] = {}
    origins: dict[str, str] = {}
    for variable, name in names.items():
        origin = _origin(variable, environ)
        if origin is not None:
            values[name.field] = value = _value(name, origin, environ[origin])
            if name.secret:
                mask_secret(str(value))
            origins[name.field] = origin
        elif demand and name.required:
            raise SettingsError(variable, f"is required: {name.about}")
    return Own(_converted(kind, names, values), origins)


def _refuse_unknown(
    names: Mapping[str, OwnName], prefixes: tuple[str, ...], environ: Mapping[str, str]
) -> None:
    for variable in sorted(environ):
        known = variable in names or variable.removesuffix(FILE_SUFFIX) in names
        if prefixes and variable.startswith(prefixes) and not known:
            raise SettingsError(variable, f"there is no such setting; known: {', '.join(names)}")


def _origin(variable: str, environ: Mapping[str, str]) -> str | None:
    in_file = variable + FILE_SUFFIX
    if variable in environ and in_file in environ:
        raise SettingsError(in_file, f"is given beside {variable}; give one of them")
    return next((name for name in (variable, in_file) if name in environ), None)


def _value(name: OwnName, origin: str, text: str) -> Any:
    if origin != name.variable:
        text = secret_file(origin, text)
    if not text:
        raise SettingsError(origin, "is empty: give it a value, or remove it")
    return text if name.kind is str else plain_value(origin, text)


def _converted(kind: type[S], names: Mapping[str, OwnName], values: dict[str, Any]) -> S:
    try:
        return msgspec.convert(values, kind, strict=False, dec_hook=decode)
    except msgspec.ValidationError as error:
        problem, _, place = str(error).partition(" - at `$.")
        field = place.rstrip("`").partition("[")[0].partition(".")[0]
        variable = next((v for v, name in names.items() if name.field == field), field)
        name = names.get(variable)
        if name is not None and "duration" not in problem:
            problem = f"{problem}; {right_value(name.kind, name.default)}"
        raise SettingsError(variable, problem) from None
