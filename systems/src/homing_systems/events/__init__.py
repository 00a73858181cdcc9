"""An event outbox: events written with the producer's own change, handled at least once.

A dead letter stays in its row and is replayed in place, with its history kept.
"""

from homing_systems.events.plugin import PLUGIN
from homing_systems.events.policy import (
    DEFAULT_RETRY_POLICY,
    FailureCycle,
    RetryPolicy,
    TerminalHandlerError,
)

__all__ = [
    "DEFAULT_RETRY_POLICY",
    "PLUGIN",
    "FailureCycle",
    "RetryPolicy",
    "TerminalHandlerError",
]
