"""Homing delivers what an application has promised: an e-mail, an event, the result of a job.

An accepted delivery is delivered, or becomes a dead letter with the reason; nothing is lost
silently, and "maybe sent" is never reported as "not sent".
"""

from homing.domain.delivery import Attempt, Delivery, Fact, Receipt
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
from homing.domain.policy import Exponential, FullJitter, Ladder, Retention, Retry, RetryAfter
from homing.engine.intake.request import Request, SubmitOptions, Ticket
from homing.engine.ops.bulk import BulkProgress, Prediction
from homing.engine.ops.delivery_filter import DeliveryFilter
from homing.engine.ops.failure_groups import FailureGroup
from homing.engine.ops.search import SearchResult
from homing.engine.route import Route
from homing.engine.work.function_step import HandlerCall
from homing.ports import Cursor, Page
from homing.runtime.app import Homing

__version__ = "0.1.0"

__all__ = [
    "Attachment",
    "Attempt",
    "BulkProgress",
    "Cursor",
    "Delivery",
    "DeliveryFilter",
    "Email",
    "Event",
    "Exponential",
    "Fact",
    "Failure",
    "FailureGroup",
    "FullJitter",
    "HandlerCall",
    "Homing",
    "HomingError",
    "IdempotencyConflict",
    "InvalidRequest",
    "Invitation",
    "Job",
    "Ladder",
    "NotAllowed",
    "NotFound",
    "Page",
    "Prediction",
    "Receipt",
    "Refused",
    "Request",
    "Retention",
    "Retry",
    "RetryAfter",
    "Route",
    "SearchResult",
    "SettingsError",
    "StoreError",
    "SubmitOptions",
    "TerminalError",
    "Ticket",
]
