"""The tables of URLs: which scheme is which store or provider. Imports happen on use."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from difflib import get_close_matches
from pathlib import Path
from typing import TypeVar

from homing.domain.errors import SettingsError
from homing.ports import Journal, JournalPath, Provider, Store

T = TypeVar("T")

_SCHEME = re.compile(r"\s*([a-z][a-z0-9+.-]*):", re.IGNORECASE)


def _memory(url: str) -> Store:
    from homing.stores.memory import MemoryStore

    del url
    return MemoryStore()


def _sqlite(url: str) -> Store:
    from homing.stores.sql.sqlite import SqliteStore

    return SqliteStore(_path_of(url))


def _jsonl(url: str) -> Store:
    from homing.stores.jsonl import JsonlStore

    return JsonlStore(_path_of(url))


def _postgresql(url: str) -> Store:
    from homing.stores.sql.postgres import PostgresStore

    return PostgresStore(url)


def _stub(url: str) -> Provider:
    from homing.providers.stub import stub_from_url

    return stub_from_url(url)


def _smtp(url: str) -> Provider:
    from homing.providers.smtp import SmtpProvider

    return SmtpProvider.from_url(url)


def _graph(url: str) -> Provider:
    from homing.providers.graph.provider import GraphProvider

    return GraphProvider.from_url(url)


# Mail that is given to one of these needs no sender of its own.
NOWHERE = frozenset({"stub"})
STORES: dict[str, Callable[[str], Store]] = {
    "memory": _memory,
    "sqlite": _sqlite,
    "jsonl": _jsonl,
    "postgresql": _postgresql,
    "postgres": _postgresql,
}
PROVIDERS: dict[str, Callable[[str], Provider]] = {
    "stub": _stub,
    "smtp": _smtp,
    "smtps": _smtp,
    "graph": _graph,
}
_ENDINGS = {"sqlite": "db", "jsonl": "jsonl"}
EXAMPLES = {
    "store": (
        "sqlite:///outbox.db",
        "sqlite:////srv/outbox.db",
        "jsonl:///queue.jsonl",
        "postgresql://user:secret@db.example.org/shop",
        "memory: (for tests)",
    ),
    "provider": (
        "smtp://user:secret@mail.example.org:587",
        "smtps://user:secret@mail.example.org",
        "graph: (Microsoft 365; see docs/guides/graph.md)",
        "stub: (sends nothing)",
    ),
}
# Kinds that people may expect and that are planned.
LATER = frozenset({"redis", "rediss"})


def store_of(given: str | Path | Store) -> Store:
    """The store of a URL, the SQLite file of a path, or the store itself."""
    if isinstance(given, str):
        return store_from_url(given)
    if isinstance(given, Path):
        return STORES["sqlite"](f"sqlite:///{given}")
    return _checked(given, "claim", "store")


def provider_of(given: str | Provider) -> Provider:
    """The provider of a URL, or the provider itself."""
    if isinstance(given, str):
        return provider_from_url(given)
    return _checked(given, "prepare", "provider")


def scheme_of(url: str) -> str:
    """Empty if there is none. `urlsplit` raises for some URLs, in words that hold the password."""
    found = _SCHEME.match(url)
    return found[1].lower() if found else ""


def scheme_of_store(given: str | Path | Store) -> str:
    """Empty for a store that was made by hand."""
    if isinstance(given, Path):
        return "sqlite"
    return scheme_of(given) if isinstance(given, str) else ""


def store_from_url(url: str) -> Store:
    return _from(STORES, "store", url)


def provider_from_url(url: str) -> Provider:
    return _from(PROVIDERS, "provider", url)


def sends_nowhere(provider: str) -> bool:
    """Whether this is a provider for tests, which sends nothing."""
    return scheme_of(provider) in NOWHERE


def journal_for(store: Store, path: str | Path | None = None) -> Journal | None:
    """The emergency journal in this file, or at the store's own path; None if it has none."""
    if path is None and isinstance(store, JournalPath):
        path = store.journal_path
    if path is None:
        return None
    from homing.stores.emergency import FileJournal

    return FileJournal(path)


def _from(table: dict[str, Callable[[str], T]], setting: str, url: str) -> T:
    scheme = scheme_of(url)
    make = table.get(scheme)
    if make is None:
        raise SettingsError(setting, _unknown(table, setting, url, scheme))
    return make(url)


def _unknown(table: Collection[str], setting: str, url: str, scheme: str) -> str:
    """What is wrong and what would be right. A URL may hold a password: it is not repeated."""
    examples = "; ".join(EXAMPLES[setting])
    if "://" not in url and scheme not in LATER:
        return f"is not a URL; write one such as {examples}"
    if scheme in LATER:
        return f"{scheme}: is not there yet; write one such as {examples}"
    close = get_close_matches(scheme, table, n=1)
    meant = f"did you mean {close[0]}:? " if close else ""
    return f"unknown kind {scheme!r}; {meant}Write one such as {examples}"


def _checked(given: T, method: str, setting: str) -> T:
    if not hasattr(given, method):
        kind, example = type(given).__name__, EXAMPLES[setting][0]
        raise SettingsError(setting, f"must be a URL such as {example}, not {kind}")
    return given


def _path_of(url: str) -> Path:
    """`sqlite:///relative.db` and `sqlite:////absolute.db`, as elsewhere in Python."""
    scheme, rest = scheme_of(url), url.split(":", 1)[1]
    if not rest.startswith("///") or len(rest) == len("///"):
        name = rest.lstrip("/") or f"outbox.{_ENDINGS[scheme]}"
        raise SettingsError(
            "store",
            f"a file has three slashes: {scheme}:///{name} in this folder,"
            f" {scheme}:////srv/{name} anywhere",
        )
    return Path(rest[len("///") :])
