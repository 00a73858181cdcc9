"""`why`: what happened to a delivery, what will happen next and when, in plain sentences."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from homing.domain.delivery import Attempt, Cycle, Delivery, Fact
from homing.domain.failure import CHILDREN_FAILED, STORE_DAMAGED
from homing.domain.policy import Plan
from homing.engine.ops.advice import setup_advice
from homing.engine.ops.why_words import (
    EVIDENCE,
    NOT_DELIVERED,
    PARTS_FAILED,
    RECIPIENT,
    SENT,
    words_for,
)
from homing.engine.process.pausing import BY_FAULT
from homing.engine.route import Route

# Due for longer than this and not claimed: perhaps no worker is running.
OVERDUE_S = 60.0
# At most this many children are named.
PARTS_SHOWN = 20


def explain(  # noqa: PLR0913 - all that is known of a delivery
    delivery: Delivery,
    attempts: Sequence[Attempt],
    route: Route | None,
    *,
    now_ms: int,
    paused: Fact | None = None,
    audit: Sequence[Fact] = (),
    children: Sequence[Delivery] = (),
    handler: str | None = None,
    start_with: str | None = None,
) -> list[str]:
    """Sentences in chronological order: accepted, tried, repaired; then the current state.

    `start_with` is the command that starts a worker, if none serves it.
    """
    plan = None if route is None else route.plan_of(delivery)
    past = [
        (delivery.created_at_ms, _accepted(delivery, plan, handler)),
        *(
            (attempt.ended_at_ms, _attempt(attempt, delivery, plan))
            for attempt in attempts
            if attempt.ended_at_ms
        ),
        *((cycle.replayed_at_ms, _cycle(cycle)) for cycle in delivery.failure_history),
        *((fact.at_ms, _audit(fact)) for fact in audit),
    ]
    lines = [f"{_clock(at_ms)} {text}" for at_ms, text in sorted(past, key=lambda item: item[0])]
    lines += _recipients(delivery)
    lines += _open_or_failed(children)
    if _is_damaged(delivery):
        lines += _damaged(delivery, attempts, route)
    else:
        lines += _stands(delivery, route, now_ms, paused, handler)
    if start_with is not None and not delivery.is_terminal:
        lines.append(f"No live worker serves {delivery.queue!r}: start one ({start_with}).")
    if delivery.maybe_duplicate:
        lines.append(_copies(delivery, attempts, plan))
    return lines


def _accepted(delivery: Delivery, plan: Plan | None, handler: str | None) -> str:
    is_named = delivery.topic is not None and words_for(delivery, plan) is not SENT
    name = f" {delivery.topic!r}" if is_named else ""
    key = f" under key {delivery.key!r}" if delivery.key else ""
    source = f" from {delivery.source!r}" if delivery.source else ""
    origin = f" as a second delivery of {delivery.clone_of}" if delivery.clone_of else ""
    if delivery.parent_id is not None:
        origin = f" as a child of {delivery.parent_id}"
    return f"accepted{name}{source}{key} on route {delivery.route!r}{origin}{_for(handler)}."


def _copies(delivery: Delivery, attempts: Sequence[Attempt], plan: Plan | None) -> str:
    doubtful = sum(attempt.maybe_sent for attempt in attempts)
    copies = max(2, doubtful + (delivery.state == "delivered"))
    times = "twice" if copies == 2 else f"up to {copies} times"
    said = f"It was sent again while in doubt: the recipient may have it {times}."
    if delivery.failed_because == "uncertain" and plan is not None and plan.max_doubtful_sends:
        said += f" After {plan.max_doubtful_sends} sends in doubt a person decides on another."
    return said


def _for(handler: str | None) -> str:
    return "" if handler is None else f", for handler {handler!r}"


def _attempt(attempt: Attempt, delivery: Delivery, plan: Plan | None) -> str:
    words = words_for(delivery, plan, attempt.stage)
    how = words.ended.get(attempt.status, attempt.status)
    said = " ".join(part for part in (attempt.code, attempt.detail or attempt.error_class) if part)
    because = f": {said}" if said and attempt.status != "done" else ""
    doubt = "; it may have been accepted nevertheless" if attempt.maybe_sent else ""
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
        outcome = RECIPIENT[recipient.outcome]
        if delivery.state == "failed" and recipient.outcome == "open":
            outcome = NOT_DELIVERED
        lines.append(f"  {recipient.address}: {outcome}{because}")
    return lines


def _open_or_failed(children: Sequence[Delivery]) -> list[str]:
    """Those that have failed or not ended, each with its error."""
    lines = []
    for child in children[:PARTS_SHOWN]:
        because = f" ({child.failed_because})" if child.failed_because else ""
        error = f": {_error(child)}" if child.failure is not None else ""
        named = f"child {child.id}{_for(child.metadata.get('handler'))}"
        lines.append(f"  {named}: {child.state}{because}{error}")
    if len(children) > PARTS_SHOWN:
        lines.append("  and more children that have not ended well")
    return lines


def _error(delivery: Delivery) -> str:
    """The code and what was said; the class too, where the text does not begin with it."""
    failure = delivery.failure
    if failure is None:
        return ""
    named = "" if failure.detail.startswith(failure.error_class) else failure.error_class
    return " ".join(part for part in (failure.code, named, failure.detail) if part)


def _stands(
    delivery: Delivery, route: Route | None, now_ms: int, paused: Fact | None, handler: str | None
) -> list[str]:
    word = route.word(delivery) if route is not None else delivery.state
    if delivery.state == "pending":
        return _pending(delivery, route, now_ms, paused, word)
    if delivery.state == "in_flight":
        return [_in_flight(delivery, now_ms, word)]
    if delivery.state == "waiting":
        return [f"It is {word}: {delivery.open_children} of its children have not ended yet."]
    return _ended(delivery, None if route is None else route.plan_of(delivery), word, handler)


def _is_damaged(delivery: Delivery) -> bool:
    failure = delivery.failure
    is_failed = delivery.state == "failed" and delivery.restart_at is None
    return is_failed and failure is not None and failure.error_class == STORE_DAMAGED


def _damaged(delivery: Delivery, attempts: Sequence[Attempt], route: Route | None) -> list[str]:
    """The ledger of attempts lies elsewhere, and may still say what became of it."""
    word = route.word(delivery) if route is not None else delivery.state
    words = words_for(delivery, None if route is None else route.plan_of(delivery))
    steps = [
        words.next_step["uncertain"],
        "A replay needs its content: if that is lost too, submit it anew and dismiss this one.",
    ]
    if any(attempt.status == "done" and attempt.cycle == delivery.cycle for attempt in attempts):
        steps = ["An attempt ended well, as told above: `confirm` it with that as evidence."]
    because = delivery.failed_because
    return [
        f"It is {word} ({because}). What the store said of it last was damaged, and is lost.",
        *steps,
    ]


def _ended(delivery: Delivery, plan: Plan | None, word: str, handler: str | None) -> list[str]:
    if delivery.state == "failed":
        return _failed(delivery, plan, word, handler)
    if delivery.state == "delivered":
        return [_delivered(delivery, plan, word, handler)]
    if delivery.state == "suppressed":
        why = delivery.failure.detail if delivery.failure and delivery.failure.detail else "by rule"
        return [f"It is {word}: skipped on purpose, {why}. Nothing more will happen by itself."]
    how = "cancelled" if delivery.failed_because is None else "closed"
    lines = [f"It is {word}: {how} by a person. `restore` opens it again."]
    if delivery.open_children:
        lines.append(
            f"{delivery.open_children} of its children were under way and end by themselves."
        )
    return lines


def _failed(delivery: Delivery, plan: Plan | None, word: str, handler: str | None) -> list[str]:
    because = delivery.failed_because or "rejected"
    if delivery.failure is not None and delivery.failure.error_class == CHILDREN_FAILED:
        what, next_step = PARTS_FAILED
        return [f"It is {word} ({because}). {what}", next_step]
    words = words_for(delivery, plan)
    lines = [f"It is {word} ({because}). {_because(words.because[because], delivery)}"]
    if words is not SENT and delivery.failure is not None:
        place = f"stage {delivery.stage!r}" if handler is None else f"handler {handler!r}"
        lines.append(f"The last error of {place}: {_error(delivery)}")
    if delivery.earlier_maybe_sent:
        lines.append("An earlier payload of it may have been accepted.")
    if delivery.restart_at is not None:
        return [*lines, "It was amended since: replay it, or dismiss it."]
    return [*lines, words.next_step[because]]


def _because(text: str, delivery: Delivery) -> str:
    if delivery.attempts_spent == 1:
        text = text.replace("All {attempts} attempts", "Its only attempt")
    return text.format(attempts=delivery.attempts_spent)


def _delivered(delivery: Delivery, plan: Plan | None, word: str, handler: str | None) -> str:
    receipt = delivery.receipt
    number = f" as {receipt.notification_id}" if receipt and receipt.notification_id else ""
    how = EVIDENCE.get(receipt.evidence if receipt else "", "")
    if delivery.fanned_out:
        what = "all its children have ended well"
    elif words_for(delivery, plan) is SENT:
        what = f"the provider accepted it{number}"
    elif handler is not None:
        what = f"handler {handler!r} has handled it"
    else:
        what = f"its last stage, {delivery.stage!r}, has finished"
    return f"It is {word}: {what}{how}. Nothing more will happen."


def _in_flight(delivery: Delivery, now_ms: int, word: str) -> str:
    since = _span((now_ms - (delivery.claimed_at_ms or now_ms)) / 1000)
    left_s = ((delivery.due_at_ms or now_ms) - now_ms) / 1000
    if delivery.holder is None:
        return f"It is {word}, but its worker has died: another takes over."
    if left_s <= 0:
        return f"It is {word}, but its worker {delivery.holder} is overdue: another takes over."
    return (
        f"It is {word}: {delivery.holder} has been trying it for {since}. Should that worker die,"
        f" another takes over within seconds; should it hang, in {_span(left_s)}."
    )


def _pending(
    delivery: Delivery, route: Route | None, now_ms: int, paused: Fact | None, word: str
) -> list[str]:
    if paused is not None:
        step = setup_advice(str((paused.value or {}).get("error_class")))
        return [_paused(paused, word), *([] if step is None else [step])]
    number = delivery.attempts_spent + 1
    budget = delivery.max_attempts or 0 if route is None else route.budget_of(delivery)
    left_s = ((delivery.due_at_ms or now_ms) - now_ms) / 1000
    when = f"at {_clock(delivery.due_at_ms or now_ms)}, in {_span(left_s)}"
    of = f" of {budget}" if budget else ""
    lines = []
    is_held = _is_held_next(delivery, route)
    if is_held:
        lines.append(
            f"It is {word}. It is held for a person {when if left_s > 0 else 'now'}: an earlier"
            " attempt may have been accepted, and the provider cannot be asked."
        )
    elif left_s > 0:
        lines.append(f"It is {word}. Attempt {number}{of} ({delivery.stage}) is due {when}.")
    else:
        lines.append(f"It is {word}. Attempt {number}{of} ({delivery.stage}) is due now.")
    if left_s < -OVERDUE_S:
        lines.append(f"It has been due for {_span(-left_s)}: is a worker running? (homing health)")
    if budget and number >= budget and not is_held:
        lines.append("It is the last of its budget: if it fails, a person has to decide.")
    if delivery.maybe_sent and not is_held:
        lines.append(f"An earlier attempt may have been accepted{_doubt_ahead(delivery, route)}.")
    elif delivery.earlier_maybe_sent:
        lines.append("An earlier payload of it may have been accepted.")
    if delivery.expires_at_ms is not None:
        lines.append(f"It expires at {_clock(delivery.expires_at_ms)}.")
    return lines


def _is_held_next(delivery: Delivery, route: Route | None) -> bool:
    """Whether the next claim sends nothing, as only a person can decide on another send."""
    if route is None or not delivery.maybe_sent or delivery.doubt_waived:
        return False
    can_repeat = route.provider is not None and route.provider.token_window_s > 0
    return route.lookup is None and not can_repeat and route.plan_of(delivery).on_unknown == "hold"


def _doubt_ahead(delivery: Delivery, route: Route | None) -> str:
    """What the next attempt does about the doubt."""
    if route is None:
        return ""
    if route.lookup is not None:
        return ": the provider is asked first"
    if delivery.doubt_waived or route.plan_of(delivery).on_unknown == "retry":
        return ", and the provider cannot be asked: the next attempt may send it a second time"
    return ": it is sent again while the provider recognises repeats, and held for a person after"


def _paused(fact: Fact, word: str) -> str:
    value = fact.value or {}
    since = f"It is {word}. Its route is paused since {_clock(fact.at_ms)}: {value.get('reason')}."
    if value.get("by") == BY_FAULT:
        return f"{since} It keeps its place; from time to time one message is tried."
    return f"{since} It keeps its place until an operator resumes the route."


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
