"""A review job: which changelist, which version of its review, and who is to be told."""

from __future__ import annotations

import msgspec
from msgspec import Struct

from homing import Request
from homing.domain.delivery import Content
from homing.domain.errors import InvalidRequest
from homing.domain.message import Job, decode_message
from homing.plugins import Admitted

JOB = "review"


class Recipient(Struct, frozen=True):
    """A recipient. The job succeeds only if all required ones were told."""

    address: str
    required: bool = True


class Review(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    changelist_id: str
    review_version: int
    recipients: tuple[Recipient, ...]


def request_for(review: Review, *, idempotency_key: str | None, source: str = "") -> Request:
    return Request(
        message=Job(JOB, msgspec.to_builtins(review)), key=idempotency_key, source=source
    )


def admit_review(message: Job) -> Admitted:
    """Refuse what every attempt would fail on."""
    review = review_of(message)
    if not review.changelist_id:
        raise InvalidRequest("changelist_id", "is empty")
    if review.review_version < 1:
        raise InvalidRequest("review_version", "must be 1 or more")
    if not any(recipient.required for recipient in review.recipients):
        raise InvalidRequest("recipients", "must name at least one who is required")
    # One job for one version of a changelist's review, whatever key it came under.
    intent = _intent(review.changelist_id, review.review_version)
    return Admitted.of(message, intent=intent)


def review_of(message: Job) -> Review:
    try:
        return msgspec.convert(message.data, Review)
    except msgspec.ValidationError as error:
        raise InvalidRequest("review", str(error)) from error


def review_in(content: Content) -> Review:
    message = decode_message(content.payload)
    if not isinstance(message, Job):
        raise InvalidRequest("payload", "is not a review job")
    return review_of(message)


def recipient_intent(review: Review, address: str) -> str:
    """One notification for one recipient of one version: the key of its row and of its token."""
    return _intent(review.changelist_id, address, review.review_version)


def _intent(*parts: str | int) -> str:
    return msgspec.json.encode(parts).decode()
