"""SQL files of plugins: their own views, tables and functions, each applied once.

Each plugin numbers its files by time (`20261116T1200_outbox_view.sql`, or
`20261116120000_outbox_view.sql`), so that two branches of it can add files without agreeing on
numbers.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from importlib.resources import files

from msgspec import Struct

from homing.domain.errors import StoreUnsafe

_NAME = re.compile(r"[0-9]{8}(T[0-9]{4}|[0-9]{6})_[a-z0-9_]+\.sql")


class PluginFile(Struct, frozen=True):
    plugin: str
    name: str
    script: str

    @property
    def checksum(self) -> str:
        return hashlib.sha256(self.script.encode()).hexdigest()


def files_of(plugin: str, package: str) -> tuple[PluginFile, ...]:
    """The SQL files of a package, in the order of the times in their names."""
    found = sorted(
        (file for file in files(package).iterdir() if file.name.endswith(".sql")),
        key=lambda file: file.name,
    )
    for file in found:
        if not _NAME.fullmatch(file.name):
            raise ValueError(f"{package}: {file.name} is not named like 20261116T1200_what.sql")
    return tuple(PluginFile(plugin, file.name, file.read_text("utf-8")) for file in found)


def outstanding_files(
    given: Iterable[PluginFile], applied: Mapping[tuple[str, str], str]
) -> list[PluginFile]:
    """The files still to be applied; `applied` maps (plugin, name) to a checksum."""
    pending = []
    for file in given:
        known = applied.get((file.plugin, file.name))
        if known is None:
            pending.append(file)
        elif known != file.checksum:
            raise StoreUnsafe(
                f"{file.name} of plugin {file.plugin} was edited after it was applied:"
                " restore the file, and put the change into a new one"
            )
    return pending
