"""The store of a program, with the SQL files of its assembly."""

from __future__ import annotations

from typing import Any

from homing.assembly import Assembly
from homing.domain.errors import SettingsError
from homing.ports import InFile, Migrated, Store, TakesSqlFiles
from homing.settings import Settings
from homing.urls import scheme_of, store_from_url


def store_for(general: Settings, assembly: Assembly[Any]) -> Store:
    """Nothing is opened yet; opening applies the files."""
    store = store_from_url(general.store)
    package = assembly.sql_files.get(scheme_of(general.store))
    if package is not None:
        if not isinstance(store, TakesSqlFiles):
            raise SettingsError("store", f"takes no SQL files, and {assembly.name} has some")
        store.add_sql_files(assembly.name, package)
    return store


async def why_missing(store: Store) -> str | None:
    """What to say instead of opening a store only to read it, as opening creates it.

    Opening also applies migrations, which running workers of an older version may not expect.
    """
    place = "the store"
    if isinstance(store, InFile):
        place = f"the store {store.path.absolute()}"
        if not store.path.exists():
            return f"{place} does not exist: name another with --store or HOMING_STORE"
    pending = await store.pending_migrations() if isinstance(store, Migrated) else []
    if pending:
        return f"{place} lacks {', '.join(pending)}: is it the right one? `homing migrate` adds it"
    return None
