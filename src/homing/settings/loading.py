"""Reading settings: the file, then the environment over it, then one check of all."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from homing.domain.errors import SettingsError
from homing.domain.known_secrets import mask_secret
from homing.settings.checking import check
from homing.settings.durations import FOREVER, Seconds, Term, seconds
from homing.settings.environment import CONFIG_VARIABLE, Given, from_environ, read_text
from homing.settings.leaves import ANY, leaves, right_value
from homing.settings.tree import DkimSettings, RouteSettings, Settings

T = TypeVar("T")

DEFAULT_FILE = "homing.toml"
# Tables whose names are the user's own, with what each holds.
NAMED_TABLES: dict[str, type[Struct]] = {"routes": RouteSettings, "dkim": DkimSettings}


class Loaded(Struct, frozen=True):
    """The settings, and for each one that was given, where it came from."""

    settings: Settings
    origins: dict[str, str]

    def origin(self, name: str) -> str | None:
        """Where a setting, or the table that contains it, was given."""
        return _origin(self.origins, name)

    def with_defaults(self, defaults: Mapping[str, Any]) -> Loaded:
        """These values, by name (`server.port`), for what was not given."""
        settings = self.settings
        for name, value in defaults.items():
            if self.origin(name) is None:
                settings = _replaced(settings, name, value)
        return msgspec.structs.replace(self, settings=settings)


def load(file: Path | None = None, environ: Mapping[str, str] | None = None) -> Loaded:
    """Read the file (if it is there or was asked for) and the environment, and check it all."""
    environ = os.environ if environ is None else environ
    named = environ.get(CONFIG_VARIABLE)
    asked = file or (Path(named) if named else None)
    path = asked or Path(DEFAULT_FILE)
    tree: dict[str, Any] = {}
    origins: dict[str, str] = {}
    if asked is not None or path.exists():
        tree = _read_toml(path)
        origins = dict.fromkeys(_names(tree), str(path))
    for given in from_environ(environ):
        _put(tree, given)
        name = ".".join(given.name)
        # A whole table in the environment replaces the file's: so do its origins.
        origins = {n: o for n, o in origins.items() if not n.startswith(f"{name}.")}
        origins[name] = given.origin
    settings = _convert(tree, origins)
    try:
        check(settings)
    except SettingsError as error:
        raise _with_origin(error.setting, error.problem, origins) from None
    if settings.telemetry.sentry_dsn:
        mask_secret(settings.telemetry.sentry_dsn)
    return Loaded(settings, origins)


def _replaced(settings: T, name: str, value: Any) -> T:
    first, _, rest = name.partition(".")
    if rest:
        value = _replaced(getattr(settings, first), rest, value)
    return msgspec.structs.replace(settings, **{first: value})  # type: ignore[type-var]


def _read_toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(read_text(path))
    except OSError as error:
        raise SettingsError(str(path), f"cannot be read: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError(str(path), f"is not valid TOML: {error}") from error


def _put(tree: dict[str, Any], given: Given) -> None:
    for part in given.name[:-1]:
        tree = tree.setdefault(part, {})
        if not isinstance(tree, dict):
            raise SettingsError(given.origin, f"{part!r} is a value, not a table")
    tree[given.name[-1]] = given.value


def _names(tree: Mapping[str, Any], prefix: str = "") -> list[str]:
    names: list[str] = []
    for name, value in tree.items():
        if isinstance(value, dict) and value:
            names.extend(_names(value, f"{prefix}{name}."))
        else:
            names.append(f"{prefix}{name}")
    return names


def _convert(tree: dict[str, Any], origins: Mapping[str, str]) -> Settings:
    checked: dict[str, dict[str, Struct]] = {}
    for table, kind in NAMED_TABLES.items():
        given = tree.pop(table, {})
        if not isinstance(given, dict):
            raise _with_origin(table, f"must be a table of {table}", origins)
        checked[table] = {
            name: _checked(value, kind, f"{table}.{name}", origins) for name, value in given.items()
        }
    settings = _checked(tree, Settings, "", origins)
    return msgspec.structs.replace(settings, **checked)


def _checked(tree: Any, kind: type[T], within: str, origins: Mapping[str, str]) -> T:
    try:
        return msgspec.convert(tree, kind, strict=False, dec_hook=decode)
    except msgspec.ValidationError as error:
        setting, problem = _named(str(error), within)
        raise _with_origin(setting, _with_right_value(setting, problem), origins) from None


def decode(kind: type, value: Any) -> Any:
    if kind not in (Seconds, Term):
        raise NotImplementedError(kind)
    if kind is Term and value == FOREVER:
        return Term(None)
    if not isinstance(value, str | int | float) or isinstance(value, bool):
        raise ValueError(  # noqa: TRY004 - msgspec adds the place to this one alone
            "expected a duration such as 30, 1.5s, 5m, 2h, 7d"
        )
    return kind(seconds(value))


def _named(message: str, within: str) -> tuple[str, str]:
    """msgspec names the place as `$.a.b`; this makes `a.b: problem` of it."""
    problem, _, place = message.partition(" - at `")
    place = place.rstrip("`").removeprefix("$").removeprefix(".")
    place = ".".join(part for part in (within, place) if part)
    unknown = re.search(r"unknown field `([^`]+)`", problem)
    if unknown:
        name = f"{place}.{unknown.group(1)}" if place else unknown.group(1)
        return name, "there is no such setting"
    return place or "settings", problem


def _with_right_value(setting: str, problem: str) -> str:
    """A wrong duration says it already."""
    name = re.sub(r"^routes\.[^.]+", f"routes.{ANY}", setting.partition("[")[0])
    for leaf in leaves():
        if leaf.name == name and "duration" not in problem:
            return f"{problem}; {right_value(leaf.kind, leaf.default)}"
    return problem


def _with_origin(setting: str, problem: str, origins: Mapping[str, str]) -> SettingsError:
    origin = _origin(origins, setting.partition("[")[0])
    return SettingsError(setting, f"{problem} (from {origin})" if origin else problem)


def _origin(origins: Mapping[str, str], name: str) -> str | None:
    """Of the setting itself, of the table around it, or of something inside it."""
    parts = name.split(".")
    for length in range(len(parts), 0, -1):
        found = origins.get(".".join(parts[:length]))
        if found is not None:
            return found
    return next((o for n, o in origins.items() if n.startswith(f"{name}.")), None)
