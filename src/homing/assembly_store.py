"""The store of a program, with the SQL files of its assembly."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

from homing.assembly import Assembly
from homing.domain.errors import SettingsError
from homing.ports import Store, TakesSqlFiles
from homing.settings import Settings
from homing.urls import store_from_url


def store_for(general: Settings, assembly: Assembly[Any]) -> Store:
    """Nothing is opened yet; opening applies the files."""
    store = store_from_url(general.store)
    package = assembly.sql_files.get(urlsplit(general.store).scheme)
    if package is not None:
        if not isinstance(store, TakesSqlFiles):
            raise SettingsError("store", f"takes no SQL files, and {assembly.name} has some")
        store.add_sql_files(assembly.name, package)
    return store
