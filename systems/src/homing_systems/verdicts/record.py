"""The retry record: thirteen fields on one line of the queue file."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Raw
from msgspec.structs import replace

from homing.domain.delivery import Attempt
from homing.domain.errors import InvalidRequest
from homing.domain.failure import Failure
from homing.plugins import Foreign, ForeignState
from homing.stores.layout import Record, RecordLayout, Stored, iso_utc, iso_utc_or_none, ms_from_iso
from homing_systems.verdicts.graph_answers import error_code
from homing_systems.verdicts.route import DEFAULT_MAX_ATTEMPTS, LABELS
from homing_systems.verdicts.verdict import PAID, Verdict, request_for, variables_of

FIELDS = (
    "retry_id",
    "session_id",
    "customer_email",
    "tier",
    "query",
    "verdict",
    "created_at",
    "attempt_count",
    "last_attempt_at",
    "next_attempt_at",
    "last_error_code",
    "last_error_detail",
    "status",
)

_NO_BREAKS = str.maketrans("\r\n", "  ")


def dead_letter_record(stored: Stored) -> Record:
    """The queue's record and, beside its last error, the code of every failed attempt."""
    return {**_write(stored), "error_codes": error_codes(stored.attempts)}


def error_codes(attempts: Sequence[Attempt]) -> list[int]:
    """In order, the inline call's among them."""
    return [error_code(attempt.code) for attempt in attempts if attempt.error_class is not None]


def _write(stored: Stored) -> Record:
    delivery, failure = stored.delivery, stored.delivery.failure
    variables = variables_of(stored.content.payload)
    last = stored.attempts[-1] if stored.attempts else None
    return {
        "retry_id": delivery.id,
        "session_id": delivery.key,
        "customer_email": delivery.recipients[0].address,
        "tier": variables["tier"],
        "query": variables["query"],
        "verdict": Raw(on_one_line(variables["verdict"]).encode()),
        "created_at": iso_utc(delivery.created_at_ms),
        "attempt_count": delivery.attempts_spent,
        "last_attempt_at": iso_utc_or_none(last.started_at_ms if last else None),
        "next_attempt_at": iso_utc(_next_attempt_at_ms(stored)),
        "last_error_code": error_code(failure.code) if failure else None,
        "last_error_detail": (failure.detail or failure.error_class) if failure else None,
        "status": LABELS.word(delivery),
    }


def on_one_line(verdict: str) -> str:
    """For a line of a file. In JSON a line break stands between words only: a space, there, means
    the same. The stored payload keeps what was received."""
    return verdict.translate(_NO_BREAKS)


def _next_attempt_at_ms(stored: Stored) -> int:
    """When the next attempt is due, or when the newest one began: always after the creation."""
    return max(stored.next_attempt_at_ms or 0, stored.delivery.created_at_ms + 1)


def _read(record: Record) -> Foreign:
    """A line of another program: it continues here in the state it had there."""
    verdict = Verdict(
        session_id=record["session_id"],
        customer_email=record["customer_email"],
        tier=record["tier"],
        query=record["query"],
        verdict=bytes(record["verdict"]).decode(),
        payment_status=PAID,
    )
    code, last_at = record["last_error_code"], record["last_attempt_at"]
    foreign_state = ForeignState(
        created_at_ms=ms_from_iso(record["created_at"], "created_at"),
        updated_at_ms=None if last_at is None else ms_from_iso(last_at, "last_attempt_at"),
        due_at_ms=ms_from_iso(record["next_attempt_at"], "next_attempt_at"),
        attempts_spent=record["attempt_count"],
        failure=None
        if code is None
        else Failure("imported", code=str(code), detail=record["last_error_detail"] or ""),
    )
    request = request_for(verdict, retry_id=record["retry_id"])
    return Foreign(request, _with_status(record["status"], foreign_state))


def _with_status(word: str, foreign_state: ForeignState) -> ForeignState:
    if word in ("PENDING", "RETRYING"):
        return foreign_state
    if word == "DELIVERED":
        return replace(foreign_state, state="delivered")
    if word == "DEAD":
        is_spent = foreign_state.attempts_spent >= DEFAULT_MAX_ATTEMPTS
        because = "exhausted" if is_spent else "rejected"
        return replace(foreign_state, state="failed", failed_because=because)
    raise InvalidRequest("status", f"{word!r} is not a status of this queue")


LAYOUT = RecordLayout(
    names={
        "queue": "oracle_email_retry_queue.jsonl",
        "dead_letters": "oracle_email_dead_letter.jsonl",
        "delivery_log": "oracle_email_delivery.log",
        "alerts": "ALERT.log",
    },
    fields=FIELDS,
    # Only on lines that Homing wrote; a line without it is valid too.
    optional=frozenset({"_homing"}),
    raw=frozenset({"verdict"}),
    labels=LABELS,
    write=_write,
    read=_read,
)
