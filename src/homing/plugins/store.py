"""The store of a program, with the SQL files of its plugin."""

from __future__ import annotations

from typing import Any

from homing.domain.errors import NotAllowed, SettingsError
from homing.plugins.value import Plugin
from homing.ports import InFile, Migrated, ReadsViews, Store, TakesSqlFiles
from homing.runtime.urls import scheme_of, store_from_url
from homing.settings import Settings


def store_for(general: Settings, plugin: Plugin[Any]) -> Store:
    """Nothing is opened yet; opening applies the files."""
    store = store_from_url(general.store)
    add_files(store, scheme_of(general.store), plugin)
    return store


def add_files(store: Store, scheme: str, plugin: Plugin[Any]) -> None:
    """The SQL files of a plugin for a store of this scheme; called before it is opened."""
    package = plugin.sql_files.get(scheme)
    if package is not None:
        if not isinstance(store, TakesSqlFiles):
            raise SettingsError("store", f"takes no SQL files, and {plugin.name} has some")
        store.add_sql_files(plugin.name, package)


async def read_view(store: Store, query: str, *given: object) -> list[dict[str, Any]]:
    """The rows of a query on the views that the SQL files make; StoreError if that fails."""
    if not isinstance(store, ReadsViews):
        raise NotAllowed(
            "HOMING_STORE names a store whose views cannot be read: the guide of the plugin says"
            " which stores it supports"
        )
    return await store.read_view(query, *given)


async def why_missing(store: Store, command: str = "homing migrate") -> str | None:
    """What to say instead of opening a store only to read it, as opening creates it.

    Opening also applies migrations, which running workers of an older version may not expect;
    `command` is the one that does it.
    """
    place = "the store"
    if isinstance(store, InFile):
        place = f"the store {store.path.absolute()}"
        if not store.path.exists():
            return f"{place} does not exist: name another with --store or HOMING_STORE"
    pending = await store.pending_migrations() if isinstance(store, Migrated) else []
    if pending:
        return f"{place} lacks {', '.join(pending)}: is it the right one? `{command}` adds it"
    return None
