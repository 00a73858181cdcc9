"""`why`: what happened to a delivery, what will happen next and when, in plain sentences."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from homing.domain.delivery import Attempt, Delivery, Fact
from homing.engine.route import Route
from homing.engine.views import budget_of

_BECAUSE = {
    "rejected": "It was refused for good; trying again unchanged would be refused again.",
    "exhausted": "All attempts of its budget are used up.",
    "uncertain": "An attempt may have been accepted and nobody can tell: check with the provider,"
    " then confirm it or replay it.",
    "expired": "Its time ran out before it could be delivered.",
    "poison": "It made its worker crash again and again.",
}
_NEXT_STEP = {
    "rejected": "Mend the cause (address, content), amend it if needed, then replay or dismiss it.",
    "exhausted": "When the other side works again, replay it; or dismiss it.",
    "uncertain": "`confirm` it with evidence if it arrived, or `replay` it (flagged as a possible"
    " duplicate) if it did not.",
    "expired": "Resend it if it is still wanted; or dismiss it.",
    "poison": "Look at the worker's log, mend the cause, then replay; or dismiss it.",
}


def explain(
    delivery: Delivery,
    attempts: Sequence[Attempt],
    route: Route | None,
    *,
    now_ms: int,
    parked: Fact | None = None,
    audit: Sequence[Fact] = (),
) -> list[str]:
    """Sentences in the order of time: accepted, tried, where it stands, what comes next."""
    lines = [_accepted(delivery)]
    lines.extend(_attempt(attempt) for attempt in attempts if attempt.ended_at_ms is not None)
    for fact in audit:
        value = fact.value or {}
        lines.append(
            f"{_clock(fact.at_ms)} {value.get('actor')} used {value.get('verb')}:"
            f" {value.get('reason')}"
        )
    lines.extend(_recipients(delivery))
    lines.extend(_stands(delivery, route, now_ms, parked))
    if delivery.maybe_duplicate:
        lines.append("It was sent again while in doubt: the recipient may have it twice.")
    return lines


def _accepted(delivery: Delivery) -> str:
    key = f" under key {delivery.key!r}" if delivery.key else ""
    source = f" from {delivery.source!r}" if delivery.source else ""
    return f"{_clock(delivery.created_at_ms)} accepted{source}{key} on route {delivery.route!r}."


def _attempt(attempt: Attempt) -> str:
    when = _clock(attempt.ended_at_ms or 0)
    how = {
        "done": "was accepted",
        "suppressed": "was suppressed on purpose",
        "rejected": "was refused for good",
        "failed": "failed and may be tried again",
        "timed_out": "got no answer in time",
        "interrupted": "was cut off: its worker ended before the outcome was known",
        "route_fault": "met a fault of the route, not of the message",
    }.get(attempt.status, attempt.status)
    line = f"{when} attempt {attempt.number} ({attempt.stage}) {how}"
    said = " ".join(part for part in (attempt.code, attempt.detail or attempt.error_class) if part)
    if said and attempt.status != "done":
        line += f": {said}"
    if attempt.maybe_sent:
        line += " — it may have been accepted all the same"
    return line + "."


def _recipients(delivery: Delivery) -> list[str]:
    if len(delivery.recipients) < 2 and not any(r.code for r in delivery.recipients):
        return []
    words = {
        "open": "still to be sent to",
        "accepted": "accepted",
        "refused": "refused",
        "maybe": "maybe accepted",
    }
    return [
        f"  {r.address}: {words[r.outcome]}"
        + (f" ({' '.join(p for p in (r.code, r.detail) if p)})" if r.code or r.detail else "")
        for r in delivery.recipients
    ]


def _stands(delivery: Delivery, route: Route | None, now_ms: int, parked: Fact | None) -> list[str]:
    word = route.word(delivery) if route is not None else delivery.state
    state = delivery.state
    if state == "pending":
        return _pending(delivery, route, now_ms, parked, word)
    if state == "in_flight":
        return [f"It is being tried right now by {delivery.holder}."]
    if state == "waiting":
        return [f"It waits for {delivery.open_children} part(s) to end."]
    if state == "failed" and delivery.failed_because is not None:
        because = delivery.failed_because
        return [f"It is {word} ({because}). {_BECAUSE[because]}", _NEXT_STEP[because]]
    if state == "delivered":
        receipt = delivery.receipt
        number = f" as {receipt.notification_id}" if receipt and receipt.notification_id else ""
        how = {
            "lookup": " (found by asking the provider)",
            "operator": " (confirmed by a person)",
            "late": " (known from a late answer)",
        }.get(receipt.evidence if receipt else "", "")
        return [f"It is {word}: the provider accepted it{number}{how}. Nothing more will happen."]
    how = {"suppressed": "skipped on purpose", "dismissed": "closed by a person"}[state]
    return [f"It is {word}: {how}. Nothing more will happen by itself."]


def _pending(
    delivery: Delivery, route: Route | None, now_ms: int, parked: Fact | None, word: str
) -> list[str]:
    if parked is not None:
        reason = (parked.value or {}).get("reason")
        return [f"Its route is parked since {_clock(parked.at_ms)}: {reason}. It keeps its turn."]
    number = delivery.attempts + 1
    budget = budget_of(delivery, route)
    due_at_ms = delivery.due_at_ms or now_ms
    left_s = (due_at_ms - now_ms) / 1000
    when = "now" if left_s <= 0 else f"at {_clock(due_at_ms)}, in {_span(left_s)}"
    of = f" of {budget}" if budget else ""
    return [f"It is {word}. Attempt {number}{of} ({delivery.stage}) comes {when}."]


def _span(left_s: float) -> str:
    minutes, seconds = divmod(round(left_s), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    parts = [(days, "d"), (hours, "h"), (minutes, "min"), (seconds, "s")]
    shown = [f"{amount} {unit}" for amount, unit in parts if amount][:2]
    return " ".join(shown) or "less than a second"


def _clock(at_ms: int) -> str:
    """UTC, to the second."""
    return datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%SZ")
