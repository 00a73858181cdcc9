"""The plugins that are installed here: found by entry point, loaded when they are needed."""

from __future__ import annotations

import ast
import contextlib
import functools
from collections.abc import Mapping
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from homing.domain.errors import HomingError

if TYPE_CHECKING:
    from homing.plugins.value import Plugin

GROUP = "homing.plugins"


class BrokenPlugin(HomingError):
    """An installed package offers a plugin that cannot be used."""

    def __init__(self, name: str, package: str, problem: str) -> None:
        super().__init__(f"plugin {name!r} of package {package} cannot be loaded: {problem}")
        self.name = name


class SharedQueue(HomingError):
    """Two installed plugins own the same queue, and this process would work on it or fill it."""


class Installed(Struct, frozen=True):
    """The plugins that could be loaded, and why each of the others could not."""

    plugins: tuple[Plugin[Any], ...]
    broken: tuple[BrokenPlugin, ...]


def offered() -> Mapping[str, EntryPoint]:
    """By name, without loading any. Of two under one name the first on the path counts."""
    found: dict[str, EntryPoint] = {}
    for entry in entry_points(group=GROUP):
        found.setdefault(entry.name, entry)
    return found


def load(name: str) -> Plugin[Any]:
    """Raises BrokenPlugin, which names the plugin, its package and the reason."""
    return _loaded(offered()[name])


@functools.cache
def all_installed() -> Installed:
    """Loads all of them, once in a process."""
    plugins: list[Plugin[Any]] = []
    broken: list[BrokenPlugin] = []
    for entry in offered().values():
        try:
            plugins.append(_loaded(entry))
        except BrokenPlugin as error:
            broken.append(error)
    return Installed(tuple(plugins), tuple(broken))


def summaries() -> Mapping[str, str]:
    """For each plugin the first line of its module's docstring, or the package it comes from.

    No module is loaded for this: some take a quarter of a second.
    """
    return {
        name: _first_line(entry) or f"From package {package_of(entry)}."
        for name, entry in offered().items()
    }


def _first_line(entry: EntryPoint) -> str | None:
    with contextlib.suppress(ImportError, OSError, SyntaxError, ValueError):
        spec = find_spec(entry.module)
        if spec is not None and spec.origin is not None:
            text = ast.get_docstring(ast.parse(Path(spec.origin).read_bytes()))
            return text.splitlines()[0] if text else None
    return None


def package_of(entry: EntryPoint) -> str:
    """With its version, for people."""
    return "unknown" if entry.dist is None else f"{entry.dist.name} {entry.dist.version}"


def _loaded(entry: EntryPoint) -> Plugin[Any]:
    # Late: listing the names for `homing --help` needs none of it.
    from homing.plugins.value import Plugin

    package = package_of(entry)
    try:
        value = entry.load()
    except Exception as error:
        # A module of another package may raise anything while it is imported.
        problem = f"{type(error).__name__}: {error}"
        raise BrokenPlugin(entry.name, package, problem) from error
    if not isinstance(value, Plugin):
        raise BrokenPlugin(entry.name, package, f"{entry.value} is not a Plugin")
    if value.name != entry.name:
        raise BrokenPlugin(entry.name, package, f"it calls itself {value.name!r}")
    return value
