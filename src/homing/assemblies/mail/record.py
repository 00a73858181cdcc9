"""The records of the mail service: a delivery without its bodies, and its attempts."""

from __future__ import annotations

from homing.assemblies.mail.login_codes import masked
from homing.assemblies.mail.rendering import RENDER, rendered_in
from homing.assemblies.mail.route import LABELS
from homing.domain.delivery import Attempt, AttemptStatus
from homing.domain.message import Email, decode_email
from homing.stores.layout import Record, RecordLayout, Stored

STALE_CLAIM = "stale_claim"

ATTEMPT_WORDS: dict[AttemptStatus, str] = {
    "scheduled": "scheduled",
    "running": "in_progress",
    "done": "provider_accepted",
    "suppressed": "provider_rejected",
    "rejected": "provider_rejected",
    "failed": "transport_failed",
    "timed_out": "timed_out",
    "interrupted": "timed_out",
    "route_fault": "transport_failed",
}
# Rendering comes before the attempt proper: while it runs, the attempt is still to come.
RENDER_WORDS: dict[AttemptStatus, str] = {"running": "scheduled", "rejected": "render_failed"}

KEYS = {
    "deliveries": "mail:deliveries:",
    "attempts": "mail:attempts:",
    "idempotency": "mail:idempotency:",
    "dead_letters": "mail:dead_letters:",
    "payloads": "mail:delivery_payloads:",
    "malformed": "mail:malformed_commands:",
    "offsets": "mail:stream_offsets:",
    "commands": "mail:delivery_commands",
    "schedule": "mail:attempt_schedule",
    "by_recipient": "mail:idx:recipient:",
    "by_status": "mail:idx:status:",
    "by_source": "mail:idx:source:",
    "by_template": "mail:idx:template:",
    "by_idempotency": "mail:idx:idempotency:",
    "by_created_at": "mail:idx:created_at",
    "malformed_by_created_at": "mail:idx:malformed_command:created_at",
}


def attempt_word(attempt: Attempt) -> str:
    words = ATTEMPT_WORDS | RENDER_WORDS if attempt.stage == RENDER else ATTEMPT_WORDS
    return words[attempt.status]


def attempt_record(attempt: Attempt) -> Record:
    interrupted = attempt.status == "interrupted"
    return {
        "delivery_id": attempt.delivery_id,
        "attempt_no": attempt.number,
        "status": attempt_word(attempt),
        "scheduled_for_ms": attempt.scheduled_for_ms,
        "started_at_ms": attempt.started_at_ms,
        "finished_at_ms": attempt.ended_at_ms,
        "provider_code": attempt.code,
        "error_class": attempt.error_class,
        "detail": STALE_CLAIM if interrupted else attempt.detail,
    }


def _write(stored: Stored) -> Record:
    delivery, failure = stored.delivery, stored.delivery.failure
    email, rendered = _email(stored), rendered_in(stored.content)
    templated = email.template_id is not None
    return {
        "delivery_id": delivery.id,
        "source": delivery.source,
        "idempotency_key": delivery.key,
        "payload_mode": "template" if templated else "rendered",
        "status": LABELS.word(delivery),
        "to": list(email.to),
        "cc": list(email.cc),
        "bcc": list(email.bcc),
        "reply_to": list(email.reply_to),
        "subject": None if templated else email.subject,
        "template_id": email.template_id,
        "locale": email.locale,
        "locale_fallback_used": rendered is not None and rendered.locale_fallback_used,
        "template_variables": dict(masked(email)) if templated else None,
        "attachments": [
            {
                "filename": attachment.filename,
                "content_type": attachment.content_type,
                "size_bytes": len(attachment.content),
            }
            for attachment in email.attachments
        ],
        "attempt_count": delivery.attempts_ended,
        "next_attempt_at_ms": delivery.due_at_ms if delivery.state == "pending" else None,
        "last_error_class": failure.error_class if failure else None,
        "last_error_code": failure.code if failure else None,
        "last_error_detail": failure.detail if failure else None,
        "resend_of": delivery.clone_of,
        "created_at_ms": delivery.created_at_ms,
        "updated_at_ms": delivery.updated_at_ms,
        "ended_at_ms": delivery.ended_at_ms,
    }


def _email(stored: Stored) -> Email:
    """What was asked for; once the payload is purged, what the delivery itself still contains."""
    if stored.content.payload:
        return decode_email(stored.content.payload)
    people = tuple(recipient.address for recipient in stored.delivery.recipients)
    return Email(to=people, template_id=stored.delivery.topic)


LAYOUT = RecordLayout(
    names=KEYS,
    fields=(
        "delivery_id",
        "source",
        "idempotency_key",
        "payload_mode",
        "status",
        "to",
        "cc",
        "bcc",
        "reply_to",
        "subject",
        "template_id",
        "locale",
        "locale_fallback_used",
        "template_variables",
        "attachments",
        "attempt_count",
        "next_attempt_at_ms",
        "last_error_class",
        "last_error_code",
        "last_error_detail",
        "resend_of",
        "created_at_ms",
        "updated_at_ms",
        "ended_at_ms",
    ),
    labels=LABELS,
    write=_write,
)
