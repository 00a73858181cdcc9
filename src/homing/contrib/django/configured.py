"""The setting `HOMING`, and the Homing that it describes."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, quote, urlencode, urlsplit

from django.apps import apps
from django.conf import settings
from django.db import connections
from msgspec import Struct

from homing.contrib.django.project import ProjectHoming, is_test_run
from homing.domain.errors import SettingsError
from homing.runtime.app import Homing

# Given to Homing as they are, under the same names in small letters.
PASSED_ON = ("TEMPLATES", "DKIM", "ON_UNKNOWN", "RETRY", "TIMEOUT_S", "RETENTION")
NAMES = ("STORE", "PROVIDER", "SENDER", "ALLOWED_SENDERS", "WORKER", *PASSED_ON)
APP = "homing.contrib.django"
_DEFAULT_PORT = 5432


class Configured(Struct, frozen=True):
    store: str
    provider: str
    sender: str
    allowed_senders: tuple[str, ...]
    worker: bool
    passed_on: dict[str, Any]


def configured() -> Configured:
    """Raises SettingsError, which names the wrong key."""
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
        allowed_senders=_texts(given, "ALLOWED_SENDERS"),
        worker=_flag(given, "WORKER"),
        passed_on={name.lower(): given[name] for name in PASSED_ON if name in given},
    )


@cache
def configured_homing() -> Homing:
    """One for the project; it starts with the first call that needs it."""
    given = configured()
    return ProjectHoming(
        given.store,
        provider=given.provider,
        sender=given.sender,
        allowed_senders=given.allowed_senders,
        worker=given.worker,
        **given.passed_on,
    )


def own_database() -> str | None:
    """The alias of the store's database, if it is one of this project's."""
    if is_test_run():
        return None
    store = configured().store
    for alias in connections:
        found = _store_in(connections[alias])
        if found is not None and _place(found) == _place(store):
            return str(alias)
    return None


def _default_store() -> str | None:
    if is_test_run():  # the test database is mostly in memory, and not used
        return "memory:"
    return _store_in(connections["default"])


def _store_in(connection: Any) -> str | None:
    """The store in the database of this connection; None if there can be none."""
    database: dict[str, Any] = connection.settings_dict
    name = str(database["NAME"])
    if connection.vendor == "postgresql":
        return _server_url(database) if name else None  # else a service file names the database
    if connection.vendor != "sqlite" or ":memory:" in name or "mode=memory" in name:
        return None
    return _absolute(f"sqlite:///{name}")


def _server_url(database: dict[str, Any]) -> str:
    """A host that is a folder, that of a socket, has no place in the first part of a URL."""
    user, password = quote(database["USER"], safe=""), quote(database["PASSWORD"], safe="")
    login = f"{user}:{password}@" if password else f"{user}@" if user else ""
    host, port, options = database["HOST"], str(database["PORT"]), dict[str, str]()
    if host.startswith("/"):
        host, options["host"] = "", host
    if port and not host:
        port, options["port"] = "", port
    given = database.get("OPTIONS", {})
    options |= {name: str(value) for name, value in given.items() if name.startswith("ssl")}
    where = f"{host}:{port}" if port else host
    query = f"?{urlencode(options)}" if options else ""
    return f"postgresql://{login}{where}/{quote(str(database['NAME']), safe='')}{query}"


def _place(store: str) -> tuple[str, ...]:
    """What two URLs of one database have in common: they may log in differently."""
    parts = urlsplit(store)
    if not parts.scheme.startswith("postgres"):
        return (store,)
    options = {name: values[-1] for name, values in parse_qs(parts.query).items()}
    host = parts.hostname or options.get("host", "")
    port = str(parts.port or options.get("port") or _DEFAULT_PORT)
    return ("postgresql", host, port, parts.path)


def _absolute(store: str) -> str:
    """So that it stays the same file, and is recognised as one of the project's databases."""
    scheme, separator, path = store.partition(":///")
    is_file = scheme == "sqlite" and path
    return f"{scheme}{separator}{Path(path).absolute()}" if is_file else store


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
