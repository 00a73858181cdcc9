"""How a delivery is shown: the same fields in REST answers, in `--json`, and in the console."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct, field

from homing.domain.delivery import (
    Attempt,
    AttemptStatus,
    Cycle,
    Delivery,
    DoubtWindow,
    Fact,
    FailedBecause,
    Phase,
    Recipient,
    State,
)
from homing.engine.route import Route
from homing.engine.work.handlers import EVENT_ROUTE


class ReceiptView(Struct, frozen=True, kw_only=True):
    notification_id: str
    accepted_at_ms: int | None
    evidence: str
    detail: str | None


class DeliveryView(Struct, frozen=True, kw_only=True):
    """One delivery as REST, CLI and console show it; `status` is its route's own word."""

    delivery_id: str
    route: str
    source: str
    idempotency_key: str | None
    status: str
    state: State
    failed_because: FailedBecause | None
    maybe_sent: bool
    maybe_duplicate: bool
    stage: str
    attempts: int
    max_attempts: int
    cycle: int
    next_attempt_at_ms: int | None
    last_error: str | None
    error_class: str | None
    error_code: str | None
    recipients: tuple[Recipient, ...]
    topic: str | None
    handler: str | None
    generation: int
    priority: int
    expires_at_ms: int | None
    parent_id: str | None
    clone_of: str | None
    receipt: ReceiptView | None
    failure_history: tuple[Cycle, ...]
    metadata: Mapping[str, str]
    created_at_ms: int
    updated_at_ms: int
    ended_at_ms: int | None


class AttemptView(Struct, frozen=True, kw_only=True):
    number: int
    cycle: int
    stage: str
    phase: Phase
    status: AttemptStatus
    counted: bool
    scheduled_for_ms: int | None
    started_at_ms: int | None
    ended_at_ms: int | None
    error_class: str | None
    code: str | None
    detail: str | None
    notification_id: str | None
    maybe_sent: bool
    window: DoubtWindow | None


class AuditView(Struct, frozen=True, kw_only=True):
    at_ms: int
    verb: str
    actor: str
    reason: str
    more: Mapping[str, str] = field(default_factory=dict)


def delivery_view(
    delivery: Delivery, route: Route | None, handler: str | None = None
) -> DeliveryView:
    """`handler` is the name of an event's only handler, which its record does not contain."""
    failure = delivery.failure
    receipt = delivery.receipt
    return DeliveryView(
        delivery_id=delivery.id,
        route=delivery.route,
        source=delivery.source,
        idempotency_key=delivery.key,
        status=route.word(delivery) if route is not None else delivery.state,
        state=delivery.state,
        failed_because=delivery.failed_because,
        maybe_sent=delivery.possibly_sent,
        maybe_duplicate=delivery.maybe_duplicate,
        stage=delivery.stage,
        attempts=delivery.attempts_spent,
        max_attempts=delivery.max_attempts or 0 if route is None else route.budget_of(delivery),
        cycle=delivery.cycle,
        next_attempt_at_ms=delivery.due_at_ms if delivery.state == "pending" else None,
        last_error=failure.detail or failure.error_class if failure else None,
        error_class=failure.error_class if failure else None,
        error_code=failure.code if failure else None,
        recipients=delivery.recipients,
        topic=delivery.topic,
        handler=handler or _handler(delivery),
        generation=delivery.generation,
        priority=delivery.priority,
        expires_at_ms=delivery.expires_at_ms,
        parent_id=delivery.parent_id,
        clone_of=delivery.clone_of,
        receipt=None
        if receipt is None
        else ReceiptView(
            notification_id=receipt.notification_id,
            accepted_at_ms=receipt.accepted_at_ms,
            evidence=receipt.evidence,
            detail=receipt.detail,
        ),
        failure_history=delivery.failure_history,
        metadata=delivery.metadata,
        created_at_ms=delivery.created_at_ms,
        updated_at_ms=delivery.updated_at_ms,
        ended_at_ms=delivery.ended_at_ms,
    )


def _handler(delivery: Delivery) -> str | None:
    return delivery.metadata.get("handler") if delivery.route == EVENT_ROUTE else None


def attempt_view(attempt: Attempt) -> AttemptView:
    return AttemptView(
        number=attempt.number,
        cycle=attempt.cycle,
        stage=attempt.stage,
        phase=attempt.phase,
        status=attempt.status,
        counted=attempt.counted,
        scheduled_for_ms=attempt.scheduled_for_ms,
        started_at_ms=attempt.started_at_ms,
        ended_at_ms=attempt.ended_at_ms,
        error_class=attempt.error_class,
        code=attempt.code,
        detail=attempt.detail,
        notification_id=attempt.notification_id,
        maybe_sent=attempt.maybe_sent,
        window=attempt.window,
    )


def audit_view(fact: Fact) -> AuditView:
    value = {name: str(text) for name, text in (fact.value or {}).items() if text is not None}
    return AuditView(
        at_ms=fact.at_ms,
        verb=value.pop("verb", ""),
        actor=value.pop("actor", ""),
        reason=value.pop("reason", ""),
        more=value,
    )
