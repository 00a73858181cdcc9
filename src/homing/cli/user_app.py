"""`--app module:name`: the Homing of a library user's own program."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from pathlib import Path

import typer

from homing.runtime.app import Homing

DEFAULT_NAME = "homing"


def load_app(place: str) -> Homing:
    """Import the module, from the current folder too, and take the Homing that it names."""
    module_name, _, name = place.partition(":")
    if not module_name:
        raise _wrong(place, "name a module, such as shop.mail:homing")
    if not name:
        name = DEFAULT_NAME
        typer.echo(f"--app {place}: using {module_name}:{name}", err=True)
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    found: object = _import(place, module_name)
    for part in name.split("."):
        if not hasattr(found, part):
            raise _wrong(place, f"module {module_name!r} has no {name!r}")
        found = getattr(found, part)
    if not isinstance(found, Homing):
        kind = type(found).__name__
        raise _wrong(place, f"{name!r} of module {module_name!r} is a {kind}, not a Homing")
    return found


def _import(place: str, module_name: str) -> object:
    try:
        return importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        parents = module_name.split(".")
        own = {".".join(parents[: number + 1]) for number in range(len(parents))}
        if error.name not in own:
            raise _wrong(place, f"module {module_name!r} cannot be imported: {error}") from error
        raise _wrong(
            place, f"looked for module {module_name!r} in {Path.cwd()} and on Python's path"
        ) from error
    except Exception as error:
        # The user's own module: show what it raised.
        problem = f"{type(error).__name__}: {error}"
        raise _wrong(place, f"module {module_name!r} cannot be imported: {problem}") from error


def _wrong(place: str, problem: str) -> typer.BadParameter:
    return typer.BadParameter(f"--app {place}: {problem}")
