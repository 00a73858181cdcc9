"""`Plugin`: one value that adds an application to Homing's programs.

A package registers it in the entry-point group `homing.plugins`; `homing NAME serve`,
`homing NAME worker` and the other commands are derived from the value.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeAlias, TypeVar

from msgspec import NODEFAULT, Struct, field
from msgspec.structs import fields

from homing.domain.errors import SettingsError
from homing.engine.access.tokens import Right
from homing.engine.route import Route
from homing.ports import Finding, Notice, Provider, Store
from homing.runtime.app import Homing
from homing.runtime.mail_route import DEFAULT_SENDER
from homing.runtime.urls import sends_nowhere
from homing.settings import Settings
from homing.settings.own_names import own_names
from homing.stores.layout import RecordLayout

if TYPE_CHECKING:
    import typer

    from homing.plugins.telemetry import Telemetry

S = TypeVar("S", bound=Struct)

NAME = re.compile(r"[a-z][a-z0-9-]*")


class NoSettings(Struct, frozen=True):
    """For a plugin that has no settings of its own."""


Sign: TypeAlias = Callable[[bytes], bytes]
"""Gives the bytes of a mail with their signature."""


class Setup(Struct, Generic[S], frozen=True):
    """What a plugin makes its routes and notice writers from.

    `settings` are its own, `general` those of all plugins (`HOMING_*`), `provider` that of
    `HOMING_PROVIDER`. With `working` False the routes are only read and repaired:
    required settings may be missing, and the provider sends nothing. `generation` is that of
    this process's code (`homing NAME worker --generation N`). `store` is that of the program, for
    notice writers that need more than the delivery; None where only routes are needed.
    """

    settings: S
    general: Settings
    provider: Provider
    working: bool = True
    generation: int = 0
    store: Store | None = None

    @property
    def sender(self) -> str:
        """The From address; required in a program that sends."""
        given = self.general.sender
        if given is None and self.working and not self.sends_nowhere:
            raise SettingsError("sender", "is required: the address that mail comes from")
        return given or DEFAULT_SENDER

    @property
    def sends_nowhere(self) -> bool:
        """Whether the provider is one for tests, which sends nothing."""
        return sends_nowhere(self.general.provider)

    @property
    def sign(self) -> Sign | None:
        """Signs outgoing mail as `dkim` says; None where nothing is set."""
        if not self.dkim:
            return None
        from homing.content.dkim import signer

        return signer(self.dkim)

    @property
    def dkim(self) -> dict[str, tuple[str, str]]:
        """By domain, the selector and the path of the key; none where nothing is sent."""
        given = self.general.dkim.items() if self.working else ()
        return {domain: (key.selector, key.key_path) for domain, key in given}


class Service(Struct, Generic[S], frozen=True):
    """A running plugin, for its web handlers, commands and checks."""

    homing: Homing
    settings: S
    general: Settings

    @property
    def sender(self) -> str:
        """The From address, or that of tests where none is set."""
        return self.general.sender or DEFAULT_SENDER


class HttpRequest(Struct, frozen=True, kw_only=True):
    """A request, read whole within the limits of the server. Header names are in lower case.

    `caller` is the name of the API token that was used, or of the person, if any. A form that a
    page shows to a person who has signed in needs the `csrf_token` as its field of that name; it
    is checked before the handler is called.
    """

    method: str
    path: str
    path_params: Mapping[str, str]
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes = b""
    caller: str | None = None
    csrf_token: str | None = None


class HttpResponse(Struct, frozen=True, kw_only=True):
    """An answer: `json` is encoded, or else `body` is sent as it is."""

    status: int = 200
    json: Any = None
    body: bytes = b""
    content_type: str = "application/json"
    headers: Mapping[str, str] = field(default_factory=dict)


class Endpoint(Struct, frozen=True, kw_only=True):
    """One method of one path. `{name}` in the path becomes a path parameter.

    A refusal that the handler raises (`InvalidRequest`, `IdempotencyConflict`, …) is answered
    as `application/problem+json`.
    """

    method: Literal["GET", "POST", "PUT", "PATCH", "DELETE"]
    path: str
    handle: Callable[[Service[Any], HttpRequest], Awaitable[HttpResponse]]
    right: Right | Literal["public"] = "send"
    max_body_bytes: int = 1_000_000


Access: TypeAlias = Literal["tokens", "trusted", "session"]
"""Who may call: `tokens`, as `/api/v1` (API tokens, open on loopback while there are none);
`trusted`, every caller that reaches the port; `session`, people alone, as `server.auth` says how
they are known."""


class Web(Struct, frozen=True, kw_only=True):
    """The web endpoints of a plugin. `standard`: also serve `/api/v1`, health and metrics."""

    access: Access
    endpoints: tuple[Endpoint, ...] = ()
    standard: bool = True


NoticeWriter: TypeAlias = Callable[[Sequence[Notice]], Awaitable[Sequence[bool]]]
"""Writes up to 32 notices within 10 s; for each, True once it is safely written. The others are
asked for again, after a crash all of them are."""

Notices: TypeAlias = Mapping[tuple[str, str], NoticeWriter]
"""Notice writers by (route, notice)."""

Check: TypeAlias = Callable[[Service[Any]], Awaitable[Sequence[Finding]]]
"""A check for `doctor`: it gives findings and changes nothing."""


class Plugin(Struct, Generic[S], frozen=True, kw_only=True):
    """An application built from Homing's parts.

    `settings` is a Struct whose fields name their own environment variables (`env`); each has
    a default, so that routes can be made for reading where nothing is configured. An unknown
    variable that begins with one of `prefixes` is an error. `environ` may add to the variables of
    the process, from a file of the plugin. `general` may derive store, provider and server from
    these settings; `defaults` returns default values of general settings, by name (`store`,
    `server.port`). `sql_files` names, by the scheme of the store, a package of SQL files that are
    applied after the store's own, in the order of the times in their names
    (`20261116T1200_outbox_view.sql`). `log_fields` are part of every line that its programs log.
    With `work_for_app` its worker runs the handlers of an application
    (`homing NAME worker --app module:homing`): it is called before that Homing starts, and may add
    notifiers and adapt routes by `use_as_worker`.
    """

    name: str
    about: str
    settings: type[S]
    routes: Callable[[Setup[S]], Sequence[Route]]
    prefixes: tuple[str, ...] = ()
    environ: Callable[[Mapping[str, str]], Mapping[str, str]] | None = None
    general: Callable[[S, Settings], Settings] | None = None
    defaults: Callable[[S], Mapping[str, Any]] | None = None
    layouts: Mapping[str, RecordLayout] = field(default_factory=dict)
    notices: Callable[[Setup[S]], Notices] | None = None
    web: Web | None = None
    commands: Mapping[str, Callable[..., None] | typer.Typer] = field(default_factory=dict)
    checks: tuple[Check, ...] = ()
    sql_files: Mapping[str, str] = field(default_factory=dict)
    log_fields: Mapping[str, str] = field(default_factory=dict)
    work_for_app: Callable[[Homing, Telemetry], None] | None = None

    def __post_init__(self) -> None:
        if not NAME.fullmatch(self.name):
            raise ValueError(f"plugin {self.name!r}: a name has small letters, digits and -")
        for each in fields(self.settings):
            if each.default is NODEFAULT and each.default_factory is NODEFAULT:
                raise ValueError(f"plugin {self.name}: setting {each.name} has no default")
        for variable in (*own_names(self.settings), *self.prefixes):
            if variable.startswith("HOMING_"):
                raise ValueError(f"plugin {self.name}: {variable}: HOMING_ is for all plugins")
