"""A request for an endpoint: its caller, its query, and the headers that may occur only once."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeAlias
from urllib.parse import parse_qsl

from starlette.responses import Response
from starlette.types import Receive, Scope

from homing.web.http.callers import Caller
from homing.web.http.problems import BadRequest

# With a second one it would be unclear which of the two is meant.
ONCE = frozenset(
    {
        b"authorization",
        b"content-encoding",
        b"content-length",
        b"content-type",
        b"cookie",
        b"host",
        b"idempotency-key",
        b"origin",
        b"sec-fetch-dest",
        b"sec-fetch-mode",
        b"sec-fetch-site",
        b"transfer-encoding",
    }
)
# A request with one of these headers comes through a proxy.
PROXIED = frozenset(
    {
        b"forwarded",
        b"via",
        b"x-forwarded-for",
        b"x-forwarded-host",
        b"x-forwarded-port",
        b"x-forwarded-proto",
        b"x-real-ip",
    }
)
MAX_QUERY_FIELDS = 50


class Call:
    """`once` holds the headers that decide anything, `proxied` the name of one that a proxy sets;
    `caller` is who was let in, if anybody had to be, and `let_in_by` says whether that holds, for
    answers that last; `at_end` is called when the endpoint is done."""

    __slots__ = ("at_end", "caller", "let_in_by", "once", "proxied", "receive", "scope")

    def __init__(self, scope: Scope, receive: Receive) -> None:
        self.scope = scope
        self.receive = receive
        once: dict[bytes, bytes] = {}
        self.once = once
        self.proxied: bytes | None = None
        self.caller: Caller | None = None
        # Not bound to this call: a call that refers to itself waits for the garbage collector.
        self.let_in_by: Callable[[Call], Awaitable[bool]] | None = None
        self.at_end: Callable[[], None] | None = None
        for name, value in scope["headers"]:
            if name in ONCE:
                if name in once:
                    raise BadRequest("is given twice", name.decode("ascii"))
                once[name] = value
            elif name in PROXIED:
                self.proxied = name

    @property
    def path_params(self) -> Mapping[str, str]:
        found: Mapping[str, str] = self.scope["path_params"]
        return found

    def headers(self, name: bytes) -> list[bytes]:
        """All values of a header, which is named in lower case."""
        return [value for key, value in self.scope["headers"] if key == name]

    def header(self, name: bytes) -> bytes | None:
        """Its last value: the one that the nearest proxy has added."""
        found = self.headers(name)
        return found[-1] if found else None

    @property
    def let_in(self) -> Caller:
        """The caller of an endpoint that needs a right."""
        if self.caller is None:
            raise RuntimeError("this endpoint needs no right, so anybody may call")
        return self.caller

    def signed(self, actor: str | None) -> str:
        """Who an audit names; see `Caller.signed`."""
        if self.caller is None:
            return actor or "unknown"
        return self.caller.signed(actor)


Endpoint: TypeAlias = Callable[[Call], Awaitable[Response]]


def query_of(scope: Mapping[str, Any], known: frozenset[str] | None) -> dict[str, str]:
    """The query's fields. An unknown one is refused: ignoring it would answer another question.
    Without a list of known ones the endpoint checks them itself."""
    found: dict[str, str] = {}
    for name, value in pairs_of(scope):
        if known is not None and name not in known:
            raise BadRequest("there is no such filter", name)
        if name in found:
            raise BadRequest("is given twice", name)
        found[name] = value
    return found


def pairs_of(scope: Mapping[str, Any], most: int = MAX_QUERY_FIELDS) -> list[tuple[str, str]]:
    """The query's fields, where a name may stand several times."""
    raw = scope["query_string"]
    if not raw:
        return []
    return parsed(raw, "query", most)


def parsed(raw: bytes, field: str, most: int) -> list[tuple[str, str]]:
    """The fields of a query or a form. PostgreSQL stores no NUL, so none is taken."""
    try:
        pairs = parse_qsl(
            raw.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=most
        )
    except ValueError:  # too many, or no text in UTF-8
        raise BadRequest(f"cannot be read as a {field} in UTF-8", field) from None
    for name, value in pairs:
        if "\x00" in value:
            raise BadRequest("holds a NUL character", name)
    return pairs
