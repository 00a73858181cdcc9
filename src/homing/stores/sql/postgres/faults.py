"""What PostgreSQL's errors mean for the request that met them."""

from __future__ import annotations

from types import TracebackType

import psycopg

from homing.domain.errors import (
    StoreCorrupt,
    StoreError,
    StoreFull,
    StoreLocked,
    StoreOutcomeUnknown,
    StoreUnavailable,
)

# By SQLSTATE, or by its class (the first two characters). What is not listed is a bug of ours or
# of the schema: a plain StoreError.
MEANINGS: dict[str, type[StoreError]] = {
    "53100": StoreFull,  # disk_full
    "53200": StoreFull,  # out_of_memory
    "53": StoreUnavailable,  # too many connections, and other limits
    "54": StoreFull,  # a value or a row is too large
    "55P03": StoreLocked,  # lock_timeout
    "57014": StoreLocked,  # statement_timeout: the statement was rolled back
    "40": StoreLocked,  # deadlocks and serialization failures that did not go away
    "25006": StoreUnavailable,  # a standby: it takes no writes
    "08": StoreUnavailable,
    "57": StoreUnavailable,  # the server stops, starts, or has ended this session
    "28": StoreUnavailable,  # the login was refused
    "3D": StoreUnavailable,  # no such database
    "42501": StoreUnavailable,  # no permission
    "58": StoreUnavailable,  # I/O error of the server's system
    "XX001": StoreCorrupt,
    "XX002": StoreCorrupt,
}
# Another transaction was in the way: the same statement may succeed the next time.
COLLISIONS = frozenset({"40001", "40P01"})
# The server has ended the session; it may have committed before.
_ENDS_SESSION = ("57P01", "57P02", "57P05", "08")
_READ_ONLY = "25006"


def store_error(error: psycopg.Error, server: str) -> StoreError:
    """The error of the store's own tree that says what became of the request."""
    if isinstance(error, ConnectionLost | OutcomeUnknown):
        return StoreOutcomeUnknown(f"{server}: {error}")
    code = error.sqlstate
    text = str(error).strip().partition("\n")[0]
    if code is None:
        kind = StoreUnavailable if isinstance(error, psycopg.OperationalError) else StoreError
        return kind(f"{server}: {text}")
    meaning = MEANINGS.get(code) or MEANINGS.get(code[:2], StoreError)
    return meaning(f"{server}: {text} ({code})")


class Meaning:
    """Within it, errors of the server are raised as those of the store."""

    def __init__(self, server: str) -> None:
        self._server = server

    def __enter__(self) -> None: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if isinstance(error, psycopg.Error):
            raise store_error(error, self._server) from error


class ConnectionLost(psycopg.OperationalError):
    """The connection ended while a statement was under way: it may have been executed."""


class OutcomeUnknown(psycopg.OperationalError):
    """A connection was lost, and no other one could be made to learn what was stored."""


class Collision(StoreLocked):
    """Another transaction was in the way: the same request may succeed the next time."""


def ends_session(error: psycopg.Error) -> bool:
    return (error.sqlstate or "").startswith(_ENDS_SESSION)


def is_standby(error: psycopg.Error) -> bool:
    """This server takes no writes (any more): another one may."""
    return error.sqlstate == _READ_ONLY
