"""The assemblies that are installed here: found by entry point, loaded when they are needed."""

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
    from homing.plugins.value import Assembly

GROUP = "homing.assemblies"


class BrokenAssembly(HomingError):
    """An installed package offers an assembly that cannot be used."""

    def __init__(self, name: str, package: str, problem: str) -> None:
        super().__init__(f"assembly {name!r} of package {package} cannot be loaded: {problem}")
        self.name = name


class SharedQueue(HomingError):
    """Two installed assemblies own the same queue, and this process would work on it or fill it."""


class Installed(Struct, frozen=True):
    """The assemblies that could be loaded, and why each of the others could not."""

    assemblies: tuple[Assembly[Any], ...]
    broken: tuple[BrokenAssembly, ...]


def offered() -> Mapping[str, EntryPoint]:
    """By name, without loading any. Of two under one name the first on the path counts."""
    found: dict[str, EntryPoint] = {}
    for entry in entry_points(group=GROUP):
        found.setdefault(entry.name, entry)
    return found


def load(name: str) -> Assembly[Any]:
    """Raises BrokenAssembly, which names the assembly, its package and the reason."""
    return _loaded(offered()[name])


@functools.cache
def all_installed() -> Installed:
    """Loads all of them, once in a process."""
    assemblies: list[Assembly[Any]] = []
    broken: list[BrokenAssembly] = []
    for entry in offered().values():
        try:
            assemblies.append(_loaded(entry))
        except BrokenAssembly as error:
            broken.append(error)
    return Installed(tuple(assemblies), tuple(broken))


def summaries() -> Mapping[str, str]:
    """For each assembly the first line of its module's docstring, or the package it comes from.

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


def _loaded(entry: EntryPoint) -> Assembly[Any]:
    # Late: listing the names for `homing --help` needs none of it.
    from homing.plugins.value import Assembly

    package = package_of(entry)
    try:
        value = entry.load()
    except Exception as error:
        # A module of another package may raise anything while it is imported.
        problem = f"{type(error).__name__}: {error}"
        raise BrokenAssembly(entry.name, package, problem) from error
    if not isinstance(value, Assembly):
        raise BrokenAssembly(entry.name, package, f"{entry.value} is not an Assembly")
    if value.name != entry.name:
        raise BrokenAssembly(entry.name, package, f"it calls itself {value.name!r}")
    return value
