"""The plugins that are installed here, loaded when they are needed."""

from __future__ import annotations

import functools
from importlib.metadata import EntryPoint
from typing import Any

from msgspec import Struct

from homing.domain.errors import HomingError
from homing.plugins.value import Plugin
from homing.runtime.entry_points import offered, package_of


class BrokenPlugin(HomingError):
    """An installed package offers a plugin that cannot be used."""

    def __init__(self, name: str, package: str, problem: str) -> None:
        super().__init__(f"plugin {name!r} of package {package} cannot be loaded: {problem}")
        self.name = name


class Installed(Struct, frozen=True):
    """The plugins that could be loaded, and why each of the others could not."""

    plugins: tuple[Plugin[Any], ...]
    broken: tuple[BrokenPlugin, ...]


def load_plugin(name: str) -> Plugin[Any]:
    """The installed plugin of this name.

    Raises BrokenPlugin, which names the plugin, its package and the reason.
    """
    return _loaded(offered("homing.plugins")[name])


@functools.cache
def all_installed() -> Installed:
    """Loads all of them, once in a process."""
    plugins: list[Plugin[Any]] = []
    broken: list[BrokenPlugin] = []
    for entry in offered("homing.plugins").values():
        try:
            plugins.append(_loaded(entry))
        except BrokenPlugin as error:
            broken.append(error)
    return Installed(tuple(plugins), tuple(broken))


def _loaded(entry: EntryPoint) -> Plugin[Any]:
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
