"""Homing delivers what an application has promised: an e-mail, an event, the result of a job.

What was accepted is delivered once, or waits for a person with the reason; nothing is lost
silently, and "maybe sent" is never called "not sent".
"""

from homing.app import Homing
from homing.domain.delivery import Attempt, Delivery, Receipt
from homing.domain.errors import (
    HomingError,
    IdempotencyConflict,
    InvalidRequest,
    NotAllowed,
    NotFound,
    Refused,
    SettingsError,
    StoreError,
    TerminalError,
)
from homing.domain.failure import Failure
from homing.domain.message import Attachment, Email, Event, Invitation, Job
from homing.domain.policy import Exponential, FullJitter, Ladder, Retry, RetryAfter
from homing.engine.admission import Ticket
from homing.engine.handlers import Assignment
from homing.engine.route import Route

__version__ = "0.1.0"

__all__ = [
    "Assignment",
    "Attachment",
    "Attempt",
    "Delivery",
    "Email",
    "Event",
    "Exponential",
    "Failure",
    "FullJitter",
    "Homing",
    "HomingError",
    "IdempotencyConflict",
    "InvalidRequest",
    "Invitation",
    "Job",
    "Ladder",
    "NotAllowed",
    "NotFound",
    "Receipt",
    "Refused",
    "Retry",
    "RetryAfter",
    "Route",
    "SettingsError",
    "StoreError",
    "TerminalError",
    "Ticket",
]
