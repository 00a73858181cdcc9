"""Stores and providers by URL: its scheme is the name of an entry point that makes them.

The groups are `homing.stores` and `homing.providers`; an entry point is a function of the URL. Only
the module of the scheme that is used is imported.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, TypeVar

from homing.domain.errors import SettingsError
from homing.ports import Journal, JournalPath, Provider, Store
from homing.runtime.extras import needed_extra

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

T = TypeVar("T")
Kind: TypeAlias = Literal["store", "provider"]

_SCHEME = re.compile(r"\s*([a-z][a-z0-9+.-]*):", re.IGNORECASE)
# Without a scheme, `mail.example.org:587` looks like one.
_HOST_AND_PORT = re.compile(r"\s*[\w.-]+:\d+\s*")
# Both are names of the same scheme (libpq).
_ALIASES = {"postgres": "postgresql"}
# Mail that is given to one of these needs no sender of its own.
NOWHERE = frozenset({"stub"})
EXAMPLES = {
    "store": (
        "sqlite:///outbox.db",
        "sqlite:////srv/outbox.db",
        "postgresql://user:secret@db.example.org/shop",
        "jsonl:///queue.jsonl",
        "memory: (for tests)",
    ),
    "provider": (
        "smtp://user:secret@mail.example.org:587",
        "smtps://user:secret@mail.example.org",
        "graph: (Microsoft 365; see docs/guides/graph.md)",
        "stub: (sends nothing)",
    ),
}
# A method that every store and every provider has.
_METHOD: Final = {"store": "claim", "provider": "prepare"}


def store_of(given: str | Path | Store) -> Store:
    """The store of a URL, the SQLite file of a path, or the store itself."""
    if isinstance(given, str):
        return store_from_url(given)
    if isinstance(given, Path):
        return store_from_url(f"sqlite:///{given}")
    return _checked(given, "store")


def provider_of(given: str | Provider) -> Provider:
    """The provider of a URL, or the provider itself."""
    if isinstance(given, str):
        return provider_from_url(given)
    return _checked(given, "provider")


def scheme_of(url: str) -> str:
    """Empty if there is none. `urlsplit` raises for some URLs, in words that hold the password."""
    found = _SCHEME.match(url)
    scheme = found[1].lower() if found else ""
    return _ALIASES.get(scheme, scheme)


def scheme_of_store(given: str | Path | Store) -> str:
    """Empty for a store that was made by hand."""
    if isinstance(given, Path):
        return "sqlite"
    return scheme_of(given) if isinstance(given, str) else ""


def store_from_url(url: str) -> Store:
    """The store that an installed package makes of this URL."""
    made: Store = _maker("store", _known_scheme("store", url))(url)
    return made


def provider_from_url(url: str) -> Provider:
    """The provider that an installed package makes of this URL."""
    made: Provider = _maker("provider", _known_scheme("provider", url))(url)
    return made


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


def _known_scheme(kind: Kind, url: str) -> str:
    """A URL may hold a password, so no message repeats it."""
    scheme = scheme_of(url)
    if not scheme or _HOST_AND_PORT.fullmatch(url):
        raise SettingsError(kind, f"is not a URL; write one such as {'; '.join(EXAMPLES[kind])}")
    return scheme


@functools.cache
def _maker(kind: Kind, scheme: str) -> Callable[[str], Any]:
    """Cached, because reading what is installed takes milliseconds; an error is not cached."""
    # Late: it takes 20 ms to import, which `import homing` should not.
    from homing.runtime.entry_points import offered, package_of

    entries = offered("homing.stores" if kind == "store" else "homing.providers")
    entry = entries.get(scheme)
    if entry is None:
        raise SettingsError(kind, _unknown(kind, scheme, entries))
    try:
        return _loaded(entry)
    except Exception as error:
        is_ours = entry.module.startswith("homing.")
        if is_ours and isinstance(error, ModuleNotFoundError) and (needed := needed_extra(error)):
            raise SettingsError(kind, f"{scheme}: {needed}") from error
        problem = f"cannot be loaded: {type(error).__name__}: {error}"
        raise SettingsError(kind, f"{scheme}: of package {package_of(entry)} {problem}") from error


def _loaded(entry: EntryPoint) -> Callable[[str], Any]:
    make: Callable[[str], Any] = entry.load()
    if not callable(make):
        raise TypeError(f"{entry.value} is not a function of a URL")
    return make


def _unknown(kind: Kind, scheme: str, known: Iterable[str]) -> str:
    """What is wrong and what would be right: our own schemes first, as the examples list them."""
    ours = list(dict.fromkeys(scheme_of(example) for example in EXAMPLES[kind]))
    *names, last = [f"{name}:" for name in dict.fromkeys((*ours, *sorted(known)))]
    close = get_close_matches(scheme, known, n=1)
    meant = f" (did you mean {close[0]}:?)" if close else ""
    use = f"{', '.join(names)} or {last}"
    return f"unknown {kind} {scheme!r}{meant}; use {use}, or install a package that provides it"


def _checked(given: T, kind: Kind) -> T:
    if not hasattr(given, _METHOD[kind]):
        name, example = type(given).__name__, EXAMPLES[kind][0]
        raise SettingsError(kind, f"must be a URL such as {example}, not {name}")
    return given
