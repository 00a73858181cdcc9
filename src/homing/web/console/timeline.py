"""The history of a delivery as one list: intake, attempts, operators' acts, and what comes next."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct, field

from homing.domain.delivery import Delivery
from homing.engine.ops.verbs import past_of
from homing.engine.ops.views import AttemptView, AuditView, DeliveryView
from homing.web.console.words import because, took

ENDED = {
    "done": ("succeeded", "good"),
    "suppressed": ("suppressed on purpose", "off"),
    "rejected": ("refused permanently", "bad"),
    "failed": ("failed", "wait"),
    "timed_out": ("got no answer in time", "wait"),
    "interrupted": ("interrupted: its worker ended", "wait"),
    "route_fault": ("failed because of a fault of the route", "bad"),
    "running": ("is running", "move"),
    "scheduled": ("comes next", "next"),
}


class Moment(Struct, frozen=True, kw_only=True):
    """One entry: what happened, and what was said about it."""

    at_ms: int | None
    title: str
    color: str
    said: str = ""
    note: str = ""
    took: str = ""
    doubt: bool = False
    links: tuple[tuple[str, str], ...] = field(default_factory=tuple)


def timeline(
    delivery: Delivery,
    view: DeliveryView,
    attempts: Sequence[AttemptView],
    audit: Sequence[AuditView],
) -> list[Moment]:
    """Oldest first; what is scheduled or running comes last."""
    past = [_accepted(view)]
    past += [_attempt(each) for each in attempts if each.ended_at_ms is not None]
    past += [_act(each, delivery) for each in audit]
    dead_at_ms = _dead_at_ms(delivery)
    if dead_at_ms is not None:
        past.append(
            Moment(
                at_ms=dead_at_ms,
                title=f"became a dead letter: {because(delivery.failed_because or '')}",
                color="bad",
            )
        )
    past.sort(key=lambda moment: moment.at_ms or 0)
    coming = [_attempt(each) for each in attempts if each.ended_at_ms is None]
    if delivery.committing:
        mark = "marked: from here on it may have been sent"
        coming.append(Moment(at_ms=delivery.committed_at_ms, title=mark, color="move"))
    return [*past, *coming]


def _dead_at_ms(delivery: Delivery) -> int | None:
    """When it became a dead letter, if it is one or is one that was dismissed."""
    if delivery.state == "failed":
        return delivery.ended_at_ms
    if delivery.state == "dismissed" and delivery.failed_because is not None:
        return delivery.resume_at_ms
    return None


def _accepted(view: DeliveryView) -> Moment:
    source = f"from {view.source}" if view.source else ""
    key = f"under key {view.idempotency_key}" if view.idempotency_key else ""
    return Moment(
        at_ms=view.created_at_ms,
        title="accepted and stored",
        color="off",
        note=" ".join(part for part in (source, key) if part),
    )


def _attempt(attempt: AttemptView) -> Moment:
    word, color = ENDED.get(attempt.status, (attempt.status, "bad"))
    said = " ".join(part for part in (attempt.code, attempt.detail) if part)
    if attempt.status != "done" and not said:
        said = attempt.error_class or ""
    inline = ", inline" if attempt.phase == "inline" else ""
    cycle = f", cycle {attempt.cycle}" if attempt.cycle > 1 else ""
    return Moment(
        at_ms=attempt.ended_at_ms or attempt.scheduled_for_ms or attempt.started_at_ms,
        title=f"attempt {attempt.number} {word}",
        color=color,
        said=said,
        note=f"stage {attempt.stage}{inline}{cycle}"
        + ("" if attempt.counted else ", not counted")
        + (f", as {attempt.notification_id}" if attempt.notification_id else ""),
        took=took(attempt.started_at_ms, attempt.ended_at_ms),
        doubt=attempt.maybe_sent,
    )


def _act(entry: AuditView, delivery: Delivery) -> Moment:
    others = [
        (word, entry.more[name])
        for name, word in (("clone", "the copy"), ("original", "the original"))
        if entry.more.get(name) not in (None, delivery.id)
    ]
    title = past_of(entry.verb)
    if entry.verb == "resend" and "original" in entry.more:
        title = "made it, as a second copy"
    return Moment(
        at_ms=entry.at_ms,
        title=f"{entry.actor} {title}",
        color="person",
        said=entry.reason,
        links=tuple(others),
    )
