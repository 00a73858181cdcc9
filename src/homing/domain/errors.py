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
├── StoreError                 the store did not do what was asked
│   ├── StoreFull              no room (disk, memory); nothing was stored
│   ├── StoreUnavailable       not reachable or locked; nothing was stored
│   ├── StoreOutcomeUnknown    it may or may not have been stored: read again
│   ├── StoreUnsafe            its durability settings are weaker than the promise
│   └── StoreCorrupt           damage was found; damaged records are never skipped silently
└── TerminalError              raised by a step or handler: do not try again
"""

from __future__ import annotations


class HomingError(Exception):
    """Root of everything that Homing raises."""


class Refused(HomingError):
    """The caller asked for something that cannot be done; nothing was changed."""


class InvalidRequest(Refused):
    def __init__(self, field: str, problem: str) -> None:
        super().__init__(f"{field}: {problem}")
        self.field = field
        self.problem = problem


class TooLarge(InvalidRequest):
    pass


class IdempotencyConflict(Refused):
    def __init__(self, source: str, key: str, delivery_id: str) -> None:
        super().__init__(f"key {key!r} of source {source!r} was used by another request")
        self.source = source
        self.key = key
        self.delivery_id = delivery_id


class NotFound(Refused):
    pass


class NotAllowed(Refused):
    pass


class Overloaded(Refused):
    pass


class SettingsError(HomingError):
    def __init__(self, setting: str, problem: str) -> None:
        super().__init__(f"{setting}: {problem}")
        self.setting = setting
        self.problem = problem


class StoreError(HomingError):
    pass


class StoreFull(StoreError):
    pass


class StoreUnavailable(StoreError):
    pass


class StoreOutcomeUnknown(StoreError):
    pass


class StoreUnsafe(StoreError):
    pass


class StoreCorrupt(StoreError):
    pass


class TerminalError(HomingError):
    """Raise it (or a subclass) in a step or handler if a retry cannot succeed."""
