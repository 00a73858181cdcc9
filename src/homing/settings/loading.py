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
from homing.settings.durations import Seconds, seconds
from homing.settings.tree import RouteSettings, Settings

T = TypeVar("T")

PREFIX = "HOMING_"
FILE_SUFFIX = "_FILE"
DEFAULT_FILE = "homing.toml"
# Read by the programs themselves, not part of the tree.
APART = frozenset({"HOMING_CONFIG"})


class Loaded(Struct, frozen=True):
    """The settings, and for each one that was given, where it came from."""

    settings: Settings
    origins: dict[str, str]


def load(file: Path | None = None, environ: Mapping[str, str] | None = None) -> Loaded:
    """Read the file (if it is there or was asked for) and the environment, and check it all."""
    environ = os.environ if environ is None else environ
    asked = file or (Path(environ["HOMING_CONFIG"]) if environ.get("HOMING_CONFIG") else None)
    path = asked or Path(DEFAULT_FILE)
    tree: dict[str, Any] = {}
    origins: dict[str, str] = {}
    if asked is not None or path.exists():
        tree = _read_toml(path)
        origins = {name: str(path) for name in _leaves(tree)}
    for name, value, origin in _from_environ(environ):
        _put(tree, name, value, origin)
        origins[".".join(name)] = origin
    return Loaded(_convert(tree, origins), origins)


def _read_toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise SettingsError(str(path), f"cannot be read: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError(str(path), f"is no valid TOML: {error}") from error


def _from_environ(environ: Mapping[str, str]) -> list[tuple[tuple[str, ...], Any, str]]:
    found: list[tuple[tuple[str, ...], Any, str]] = []
    for variable in sorted(environ):
        if not variable.startswith(PREFIX) or variable in APART:
            continue
        text, name = environ[variable], variable.removeprefix(PREFIX)
        if name.endswith(FILE_SUFFIX):
            name = name.removesuffix(FILE_SUFFIX)
            if PREFIX + name in environ:
                raise SettingsError(variable, f"is given beside {PREFIX}{name}; give one of them")
            try:
                text = Path(text).read_text(encoding="utf-8").rstrip("\n")
            except (OSError, UnicodeDecodeError) as error:
                raise SettingsError(variable, "names a file that cannot be read") from error
        parts = tuple(part.lower() for part in name.split("__"))
        if not all(parts):
            raise SettingsError(variable, "has an empty part between its underscores")
        found.append((parts, _value(variable, text), variable))
    return found


def _value(variable: str, text: str) -> Any:
    """Plain text stays text (numbers are read later); lists and tables are written as in TOML."""
    if not text.startswith(("[", "{")):
        return text
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(variable, f"is no TOML list or table: {error}") from error


def _put(tree: dict[str, Any], name: tuple[str, ...], value: Any, origin: str) -> None:
    for part in name[:-1]:
        tree = tree.setdefault(part, {})
        if not isinstance(tree, dict):
            raise SettingsError(origin, f"{part!r} is a value, not a table")
    tree[name[-1]] = value


def _leaves(tree: Mapping[str, Any], prefix: str = "") -> list[str]:
    names: list[str] = []
    for name, value in tree.items():
        if isinstance(value, dict) and value:
            names.extend(_leaves(value, f"{prefix}{name}."))
        else:
            names.append(f"{prefix}{name}")
    return names


def _convert(tree: dict[str, Any], origins: Mapping[str, str]) -> Settings:
    routes = tree.pop("routes", {})
    if not isinstance(routes, dict):
        raise SettingsError("routes", "is a table of routes")
    checked = {
        name: _checked(route, RouteSettings, f"routes.{name}", origins)
        for name, route in routes.items()
    }
    settings = _checked(tree, Settings, "", origins)
    return msgspec.structs.replace(settings, routes=checked)


def _checked(tree: Any, kind: type[T], within: str, origins: Mapping[str, str]) -> T:
    try:
        return msgspec.convert(tree, kind, strict=False, dec_hook=_decode)
    except msgspec.ValidationError as error:
        setting, problem = _named(str(error), within)
        bare = setting.partition("[")[0]
        origin = next((o for n, o in origins.items() if n.startswith(bare)), "")
        where = f" ({origin})" if origin else ""
        raise SettingsError(setting + where, problem) from error


def _decode(kind: type, value: Any) -> Any:
    if kind is Seconds:
        if not isinstance(value, str | int | float) or isinstance(value, bool):
            raise ValueError("expected a duration such as 30, 1.5s, 5m, 2h, 7d")
        return Seconds(seconds(value))
    raise NotImplementedError(kind)


def _named(message: str, within: str) -> tuple[str, str]:
    """msgspec says where with `$.a.b`; people want `a.b: problem`."""
    problem, _, place = message.partition(" - at `")
    place = place.rstrip("`").removeprefix("$").removeprefix(".")
    place = ".".join(part for part in (within, place) if part)
    unknown = re.search(r"unknown field `([^`]+)`", problem)
    if unknown:
        name = f"{place}.{unknown.group(1)}" if place else unknown.group(1)
        return name, "there is no such setting"
    return place or "settings", problem
