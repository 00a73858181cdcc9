"""The one tree of exceptions. Expected failures of a send are values (`Failure`), not these.

HomingError
├── Refused                    the caller asked for something that cannot be done
│   ├── InvalidRequest         a field is wrong; `field` names it
│   │   └── TooLarge           a field is over a limit
│   ├── IdempotencyConflict    the key is taken by another request
│   ├── NotFound               no such delivery
│   ├── NotAllowed             the state or the route does not allow this verb
│   └── Overloaded             intake is closed for now; nothing was stored
├── SettingsError              a setting is unknown, unused or wrong; `setting` names it
├── SharedQueue                two installed plugins own the same queue
├── StoreError                 the store did not do what was asked
│   ├── StoreFull              no room (disk, memory); nothing was stored
│   ├── StoreUnavailable       not reachable; nothing was stored
│   │   └── StoreLocked        another connection keeps it locked
│   ├── StoreOutcomeUnknown    it may or may not have been stored: read again
│   ├── StoreUnsafe            it is not configured to be as durable as Homing promises
│   └── StoreCorrupt           damage was found; damaged records are never skipped silently
└── TerminalError              raised by a step or handler: do not try again
"""

from __future__ import annotations


class HomingError(Exception):
    """Root of everything that Homing raises."""


class Refused(HomingError):
    """The caller asked for something that cannot be done; nothing was changed."""


class InvalidRequest(Refused):
    """`field` is wrong; `problem` says how. Nothing was stored."""

    def __init__(self, field: str, problem: str) -> None:
        super().__init__(f"{field}: {problem}")
        self.field = field
        self.problem = problem


class TooLarge(InvalidRequest):
    """`field` is over a limit."""


class IdempotencyConflict(Refused):
    """Another request has used this key; `delivery_id` is its delivery."""

    def __init__(self, source: str, key: str, delivery_id: str) -> None:
        super().__init__(f"key {key!r} of source {source!r} was used by a different request")
        self.source = source
        self.key = key
        self.delivery_id = delivery_id


class NotFound(Refused):
    """There is no such delivery, route or token."""


class NotAllowed(Refused):
    """The state of the delivery, its route or this Homing does not allow this now."""


class Overloaded(Refused):
    """Intake is closed for now. Nothing was stored; try again later."""


class SettingsError(HomingError):
    """`setting` is wrong; `problem` says how."""

    def __init__(self, setting: str, problem: str) -> None:
        super().__init__(f"{setting}: {problem}")
        self.setting = setting
        self.problem = problem


class SharedQueue(HomingError):
    """Two installed plugins own the same queue, and this process would work on it or fill it."""


class StoreError(HomingError):
    """The store did not do what was asked."""


class StoreFull(StoreError):
    """There is no room. Nothing was stored."""


class StoreUnavailable(StoreError):
    """The store cannot be reached or is locked. Nothing was stored."""


class StoreLocked(StoreUnavailable):
    """Another connection keeps the store locked. Nothing was stored."""


class StoreOutcomeUnknown(StoreError):
    """It may have been stored or not. Submit it again under the same key."""


class StoreUnsafe(StoreError):
    """The store or connection is not configured to be as durable as Homing promises."""


class StoreCorrupt(StoreError):
    """Damage was found."""


class TerminalError(HomingError):
    """Raise it (or a subclass) in a step or handler if a retry cannot succeed."""
