"""`why`: what happened to a delivery, what will happen next and when, in plain sentences."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from homing.domain.delivery import Attempt, Cycle, Delivery, Fact
from homing.engine.parking import BY_FAULT
from homing.engine.route import Route
from homing.engine.views import budget_of

# Due for longer than this and not taken: perhaps nobody is there to take it.
OVERDUE_S = 60.0

_ENDED = {
    "done": "was accepted",
    "suppressed": "was suppressed on purpose",
    "rejected": "was refused for good",
    "failed": "failed and may be tried again",
    "timed_out": "got no answer in time",
    "interrupted": "was cut off: its worker ended before the outcome was known",
    "route_fault": "met a fault of the route, not of the message",
}
_RECIPIENT = {
    "open": "still to be sent to",
    "accepted": "accepted",
    "refused": "refused",
    "maybe": "maybe accepted",
}
_BECAUSE = {
    "rejected": "It was refused for good; trying again unchanged would be refused again.",
    "exhausted": "All attempts of its budget are used up.",
    "uncertain": "An attempt may have been accepted and nobody can tell.",
    "expired": "Its time ran out before it could be delivered.",
    "poison": "It made its worker crash again and again.",
}
_NEXT_STEP = {
    "rejected": "Mend the cause (address, content), amend it if needed, then replay or dismiss it.",
    "exhausted": "When the other side works again, replay it; or dismiss it.",
    "uncertain": "Ask the provider; then `confirm` it with evidence if it arrived, or `replay` it"
    " (flagged as a possible duplicate) if it did not.",
    "expired": "Resend it if it is still wanted; or dismiss it.",
    "poison": "Look at the worker's log, mend the cause, then replay; or dismiss it.",
}
_EVIDENCE = {
    "lookup": " (found by asking the provider)",
    "operator": " (confirmed by a person)",
    "late": " (known from a late answer)",
}


def explain(
    delivery: Delivery,
    attempts: Sequence[Attempt],
    route: Route | None,
    *,
    now_ms: int,
    parked: Fact | None = None,
    audit: Sequence[Fact] = (),
    is_served: bool = True,
) -> list[str]:
    """Sentences in the order of time: accepted, tried, repaired; then where it stands."""
    past = [
        (delivery.created_at_ms, _accepted(delivery)),
        *((attempt.ended_at_ms, _attempt(attempt)) for attempt in attempts if attempt.ended_at_ms),
        *((cycle.replayed_at_ms, _cycle(cycle)) for cycle in delivery.failure_history),
        *((fact.at_ms, _audit(fact)) for fact in audit),
    ]
    lines = [f"{_clock(at_ms)} {text}" for at_ms, text in sorted(past, key=lambda item: item[0])]
    lines += _recipients(delivery)
    lines += _stands(delivery, route, now_ms, parked)
    if not is_served and not delivery.is_terminal:
        lines.append(f"No live worker serves {delivery.lane!r}: start one (homing worker).")
    if delivery.maybe_duplicate:
        lines.append("It was sent again while in doubt: the recipient may have it twice.")
    return lines


def _accepted(delivery: Delivery) -> str:
    key = f" under key {delivery.key!r}" if delivery.key else ""
    source = f" from {delivery.source!r}" if delivery.source else ""
    origin = f" as a second delivery of {delivery.clone_of}" if delivery.clone_of else ""
    return f"accepted{source}{key} on route {delivery.route!r}{origin}."


def _attempt(attempt: Attempt) -> str:
    how = _ENDED.get(attempt.status, attempt.status)
    said = " ".join(part for part in (attempt.code, attempt.detail or attempt.error_class) if part)
    because = f": {said}" if said and attempt.status != "done" else ""
    doubt = "; it may have been accepted all the same" if attempt.maybe_sent else ""
    return f"attempt {attempt.number} ({attempt.stage}) {how}{because}{doubt}."


def _cycle(cycle: Cycle) -> str:
    return (
        f"cycle {cycle.number} was closed as {cycle.failed_because} after {cycle.attempts}"
        " attempt(s); a new budget began."
    )


def _audit(fact: Fact) -> str:
    value = fact.value or {}
    return f"{value.get('actor')} used {value.get('verb')}: {value.get('reason')}"


def _recipients(delivery: Delivery) -> list[str]:
    if len(delivery.recipients) < 2 and not any(r.code for r in delivery.recipients):
        return []
    lines = []
    for recipient in delivery.recipients:
        said = " ".join(part for part in (recipient.code, recipient.detail) if part)
        because = f" ({said})" if said and recipient.outcome != "accepted" else ""
        lines.append(f"  {recipient.address}: {_RECIPIENT[recipient.outcome]}{because}")
    return lines


def _stands(delivery: Delivery, route: Route | None, now_ms: int, parked: Fact | None) -> list[str]:
    word = route.word(delivery) if route is not None else delivery.state
    if delivery.state == "pending":
        return _pending(delivery, route, now_ms, parked, word)
    if delivery.state == "in_flight":
        return [_in_flight(delivery, now_ms, word)]
    if delivery.state == "waiting":
        return [f"It is {word}: {delivery.open_children} part(s) of it have not ended yet."]
    return _ended(delivery, word)


def _ended(delivery: Delivery, word: str) -> list[str]:
    because = delivery.failed_because
    if delivery.state == "failed" and because is not None:
        return [f"It is {word} ({because}). {_BECAUSE[because]}", _NEXT_STEP[because]]
    if delivery.state == "delivered":
        return [_delivered(delivery, word)]
    if delivery.state == "suppressed":
        why = delivery.failure.detail if delivery.failure and delivery.failure.detail else "by rule"
        return [f"It is {word}: skipped on purpose, {why}. Nothing more will happen by itself."]
    return [f"It is {word}: closed by a person. `restore` opens it again."]


def _delivered(delivery: Delivery, word: str) -> str:
    receipt = delivery.receipt
    number = f" as {receipt.notification_id}" if receipt and receipt.notification_id else ""
    how = _EVIDENCE.get(receipt.evidence if receipt else "", "")
    return f"It is {word}: the provider accepted it{number}{how}. Nothing more will happen."


def _in_flight(delivery: Delivery, now_ms: int, word: str) -> str:
    since = _span((now_ms - (delivery.claimed_at_ms or now_ms)) / 1000)
    left_s = ((delivery.due_at_ms or now_ms) - now_ms) / 1000
    if delivery.holder is None:
        return f"It is {word}, but its worker has died: another takes over."
    if left_s <= 0:
        return f"It is {word}, but its worker {delivery.holder} is overdue: another takes over."
    return (
        f"It is {word}: {delivery.holder} has been trying it for {since}. Should that worker die,"
        f" another takes over within {_span(left_s)}."
    )


def _pending(
    delivery: Delivery, route: Route | None, now_ms: int, parked: Fact | None, word: str
) -> list[str]:
    if parked is not None:
        return [_parked(parked, word)]
    number, budget = delivery.attempts_spent + 1, budget_of(delivery, route)
    left_s = ((delivery.due_at_ms or now_ms) - now_ms) / 1000
    when = f"at {_clock(delivery.due_at_ms or now_ms)}, in {_span(left_s)}"
    of = f" of {budget}" if budget else ""
    lines = []
    if left_s > 0:
        lines.append(f"It is {word}. Attempt {number}{of} ({delivery.stage}) comes {when}.")
    else:
        lines.append(f"It is {word}. Attempt {number}{of} ({delivery.stage}) is due now.")
    if left_s < -OVERDUE_S:
        lines.append(f"It has been due for {_span(-left_s)}: is a worker running? (homing health)")
    if budget and number >= budget:
        lines.append("It is the last of its budget: if it fails, a person has to decide.")
    if delivery.maybe_sent:
        lines.append("An earlier attempt may have been accepted: that is looked into first.")
    if delivery.expires_at_ms is not None:
        lines.append(f"It expires at {_clock(delivery.expires_at_ms)}.")
    return lines


def _parked(fact: Fact, word: str) -> str:
    value = fact.value or {}
    since = f"It is {word}. Its route is parked since {_clock(fact.at_ms)}: {value.get('reason')}."
    if value.get("by") == BY_FAULT:
        return f"{since} It keeps its turn; one message now and then tries whether it works again."
    return f"{since} It keeps its turn until somebody unparks the route."


def _span(time_s: float) -> str:
    minutes, seconds = divmod(round(time_s), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    parts = [(days, "d"), (hours, "h"), (minutes, "min"), (seconds, "s")]
    shown = [f"{amount} {unit}" for amount, unit in parts if amount][:2]
    return " ".join(shown) or "less than a second"


def _clock(at_ms: int) -> str:
    """UTC, to the second."""
    try:
        return datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%SZ")
    except (OverflowError, ValueError):
        return f"{at_ms} ms"
