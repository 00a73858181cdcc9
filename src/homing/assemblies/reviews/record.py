"""The records of a review: the job, the row of each recipient, and the dead letter of either."""

from __future__ import annotations

from homing.assemblies.reviews.job import review_in
from homing.assemblies.reviews.route import LABELS, NOTIFY, RECIPIENT
from homing.domain.delivery import Delivery
from homing.domain.failure import CHILDREN_FAILED
from homing.domain.redaction import digest, redact
from homing.stores.layout import Record, RecordLayout, Stored, iso_utc, iso_utc_or_none

RECIPIENTS_FAILED = "RECIPIENTS_FAILED"

# The words that the engine itself gives, under this design's kind of name.
ENGINE_CLASSES = {
    CHILDREN_FAILED: RECIPIENTS_FAILED,
    "interrupted": "WORKER_INTERRUPTED",
}
# The fields of a job's metadata that a dead letter may show.
REQUEST_IDS = ("request_id", "trace_id")


def error_class(delivery: Delivery) -> str | None:
    """A stable identifier, the same for the same error."""
    if delivery.failure is None:
        return None
    word = delivery.failure.error_class
    return ENGINE_CLASSES.get(word, word.upper())


def stage_of(delivery: Delivery) -> str:
    """A recipient's row belongs to the stage that made it."""
    return NOTIFY if delivery.stage == RECIPIENT else delivery.stage


def is_escalated(delivery: Delivery) -> bool:
    """Whether a replay failed again with the same error class.

    For a job that its recipients block it is false; it is true for the row that failed again.
    """
    if delivery.failed_because != "rejected" or not delivery.failure_history:
        return False
    failure = delivery.failure
    return (
        failure is not None
        and delivery.failure_history[-1].error_class == failure.error_class
        and failure.error_class != CHILDREN_FAILED
    )


def dead_letter(stored: Stored) -> Record:
    """All that triage needs, without secrets, prompts or personal data."""
    delivery, failure = stored.delivery, stored.delivery.failure
    return {
        "id": delivery.id,
        "error_class": error_class(delivery),
        "stage": stage_of(delivery),
        "first_failure_at": iso_utc_or_none(delivery.first_failed_at_ms),
        "last_failure_at": iso_utc_or_none(delivery.last_failed_at_ms),
        "last_stack": (failure.trace or failure.detail or failure.error_class) if failure else None,
        "sanitized_context": {
            "stage": stage_of(delivery),
            "attempts": delivery.attempts_spent,
            "failed_because": delivery.failed_because,
            "upstream_code": failure.code if failure else None,
            "request_ids": {
                name: redact(delivery.metadata[name])
                for name in REQUEST_IDS
                if name in delivery.metadata
            },
            "payload_sha256": digest(stored.content.payload),
        },
        "payload_ref": delivery.id,
        "escalated": is_escalated(delivery),
    }


def _write_job(stored: Stored) -> Record:
    delivery, review = stored.delivery, review_in(stored.content)
    return {
        "id": delivery.id,
        "idempotency_key": delivery.key,
        "changelist_id": review.changelist_id,
        "review_version": review.review_version,
        "status": LABELS.word(delivery),
        "blocked": delivery.state == "failed",
        "stage": delivery.stage,
        "attempts": delivery.attempts_spent,
        "error_class": error_class(delivery),
        "next_attempt_at": iso_utc_or_none(
            delivery.due_at_ms if delivery.state == "pending" else None
        ),
        "created_at": iso_utc(delivery.created_at_ms),
        "updated_at": iso_utc(delivery.updated_at_ms),
    }


def _write_row(stored: Stored) -> Record:
    delivery, receipt = stored.delivery, stored.delivery.receipt
    return {
        "changelist_id": delivery.metadata["changelist_id"],
        "recipient": delivery.recipients[0].address,
        "review_version": int(delivery.metadata["review_version"]),
        "status": LABELS.word(delivery),
        "notification_id": receipt.notification_id if receipt else None,
        "notified_at": iso_utc_or_none(receipt.accepted_at_ms if receipt else None),
        "reconciling": delivery.maybe_sent,
        "required": delivery.required,
        "attempts": delivery.attempts_spent,
        "error_class": error_class(delivery),
        "created_at": iso_utc(delivery.created_at_ms),
    }


JOB_LAYOUT = RecordLayout(
    names={"table": "jobs", "key": "jobs_idempotency_key"},
    fields=(
        "id",
        "idempotency_key",
        "changelist_id",
        "review_version",
        "status",
        "blocked",
        "stage",
        "attempts",
        "error_class",
        "next_attempt_at",
        "created_at",
        "updated_at",
    ),
    labels=LABELS,
    write=_write_job,
)
ROW_LAYOUT = RecordLayout(
    names={"table": "review_outbox", "key": "review_outbox_intent"},
    fields=(
        "changelist_id",
        "recipient",
        "review_version",
        "status",
        "notification_id",
        "notified_at",
        "reconciling",
        "required",
        "attempts",
        "error_class",
        "created_at",
    ),
    labels=LABELS,
    write=_write_row,
)
