"""The setting `HOMING`, and the Homing that it describes."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from django.apps import apps
from django.conf import settings
from django.db import connections
from msgspec import Struct

from homing.app import Homing
from homing.contrib.django.project import ProjectHoming, is_test_run
from homing.domain.errors import SettingsError

NAMES = ("STORE", "PROVIDER", "SENDER", "SENDERS", "WORKER")
APP = "homing.contrib.django"
_SQLITE = "django.db.backends.sqlite3"


class Configured(Struct, frozen=True):
    store: str
    provider: str
    sender: str
    senders: tuple[str, ...]
    worker: bool


def configured() -> Configured:
    """Raises SettingsError, which names the key at fault."""
    if apps.apps_ready and not apps.is_installed(APP):
        raise SettingsError("INSTALLED_APPS", f"must contain {APP!r}")
    given = getattr(settings, "HOMING", None)
    if not isinstance(given, dict):
        raise SettingsError("HOMING", 'must be a dict such as {"PROVIDER": "smtp://…"}')
    for name in given:
        if name not in NAMES:
            raise SettingsError(f"HOMING[{name!r}]", f"is unknown; known are {', '.join(NAMES)}")
    return Configured(
        store=_absolute(_text(given, "STORE", _default_store())),
        provider=_text(given, "PROVIDER", None),
        sender=_text(given, "SENDER", settings.DEFAULT_FROM_EMAIL),
        senders=_texts(given, "SENDERS"),
        worker=_flag(given, "WORKER"),
    )


@cache
def configured_homing() -> Homing:
    """One for the project; it starts with the first call that needs it."""
    given = configured()
    return ProjectHoming(
        given.store,
        provider=given.provider,
        sender=given.sender,
        senders=given.senders,
        worker=given.worker,
    )


def own_database() -> str | None:
    """The alias of the database in which the store lies, if it is one of this project's."""
    if is_test_run():
        return None
    store = configured().store
    for alias in connections:
        if _store_in(connections[alias].settings_dict) == store:
            return str(alias)
    return None


def _default_store() -> str | None:
    if is_test_run():  # the test database is mostly in memory, and not used
        return "memory:"
    return _store_in(connections["default"].settings_dict)


def _store_in(database: dict[str, Any]) -> str | None:
    """The store in this database; None if it is not a file of SQLite."""
    name = str(database["NAME"])
    if database["ENGINE"] != _SQLITE or ":memory:" in name or "mode=memory" in name:
        return None
    return _absolute(f"sqlite:///{name}")


def _absolute(store: str) -> str:
    """So that it stays the same file, and is recognised as one of the project's databases."""
    scheme, separator, path = store.partition(":///")
    return f"{scheme}{separator}{Path(path).absolute()}" if path else store


def _text(given: dict[str, Any], name: str, default: str | None) -> str:
    value = given.get(name, default)
    if value is None:
        raise SettingsError(f"HOMING[{name!r}]", "is missing")
    if not isinstance(value, str):
        raise SettingsError(f"HOMING[{name!r}]", "must be a text")
    return value


def _texts(given: dict[str, Any], name: str) -> tuple[str, ...]:
    values = given.get(name, ())
    if not isinstance(values, list | tuple) or not all(isinstance(one, str) for one in values):
        raise SettingsError(f"HOMING[{name!r}]", "must be a list of texts")
    return tuple(values)


def _flag(given: dict[str, Any], name: str) -> bool:
    value = given.get(name, False)
    if not isinstance(value, bool):
        raise SettingsError(f"HOMING[{name!r}]", "must be True or False")
    return value
