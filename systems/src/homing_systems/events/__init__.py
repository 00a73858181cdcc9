"""An event outbox: events written with the producer's own change, handled at least once.

A dead letter stays in its row and is replayed in place, with its history kept.
"""

from homing_systems.events.assembly import ASSEMBLY
from homing_systems.events.policy import (
    DEFAULT_RETRY_POLICY,
    FailureCycle,
    RetryPolicy,
    TerminalHandlerError,
)

__all__ = [
    "ASSEMBLY",
    "DEFAULT_RETRY_POLICY",
    "FailureCycle",
    "RetryPolicy",
    "TerminalHandlerError",
]
