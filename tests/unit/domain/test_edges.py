"""The declared state machine: what is allowed works, what is not is refused by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import get_args

import pytest
from msgspec import Struct
from msgspec.structs import replace

from homing.domain import transitions
from homing.domain.delivery import (
    TERMINAL_STATES,
    Change,
    Content,
    Delivery,
    Receipt,
    Recipient,
    State,
)
from homing.domain.errors import NotAllowed
from homing.domain.failure import Refusal
from homing.domain.transitions import EDGES
from homing.domain.transitions.table import transition
from tests.unit.domain.lives import (
    HARD,
    LEASE_MS,
    LOST,
    NOW_MS,
    SEND,
    SKIPPED,
    SOFT,
    STAGED,
    addressed,
    after_failure,
    cancelled,
    claimed,
    delivered,
    dismissed,
    failed,
    marked,
    pending,
    plan,
    stage,
    suppressed,
    waiting,
)

STATES: tuple[State, ...] = get_args(State)
IN_STATE: dict[State, Callable[[], Delivery]] = {
    "pending": pending,
    "in_flight": claimed,
    "waiting": waiting,
    "delivered": delivered,
    "suppressed": suppressed,
    "failed": failed,
    "dismissed": dismissed,
}
BOUNCED = {"b@example.org": Refusal(permanent=True, code="550")}
PUT_OFF = {"b@example.org": Refusal(permanent=False, code="451")}

# How each verb is called, on a delivery in whatever state.
CALLS: dict[str, Callable[[Delivery], Change]] = {
    "claim": lambda d: transitions.claim(
        d, holder="w2", now_ms=NOW_MS, lease_until_ms=NOW_MS + LEASE_MS
    ),
    "release": lambda d: transitions.release(d, plan=SEND, now_ms=NOW_MS, roll=0.0),
    "keep_claim": lambda d: transitions.keep_claim(
        d, holder="w1", now_ms=NOW_MS, lease_until_ms=NOW_MS + LEASE_MS
    ),
    "try_alone": lambda d: transitions.try_alone(d, now_ms=NOW_MS),
    "end_lease": lambda d: transitions.end_lease(d, now_ms=NOW_MS),
    "mark_committing": lambda d: transitions.mark_committing(
        d, now_ms=NOW_MS, lease_until_ms=NOW_MS + LEASE_MS, frozen={}
    ),
    "note_interruption": lambda d: transitions.note_interruption(
        d, plan=SEND, now_ms=NOW_MS, roll=0.0
    ),
    "advance": lambda d: transitions.advance(
        replace(d, stage="render"), plan=STAGED, now_ms=NOW_MS
    ),
    "succeed": lambda d: transitions.succeed(d, plan=SEND, now_ms=NOW_MS, roll=0.0),
    "settle_found": lambda d: transitions.settle_found(
        d, plan=SEND, now_ms=NOW_MS, receipt=Receipt("n1")
    ),
    "suppress": lambda d: transitions.suppress(d, SKIPPED, plan=SEND, now_ms=NOW_MS),
    "suppress_at_intake": lambda d: transitions.suppress_at_intake(d, "stub", now_ms=NOW_MS),
    "fail": lambda d: transitions.fail(d, SOFT, plan=SEND, now_ms=NOW_MS, roll=0.0),
    "dead_letter": lambda d: transitions.dead_letter(d, "expired", plan=SEND, now_ms=NOW_MS),
    "hold_for_damage": lambda d: transitions.hold_for_damage(d, now_ms=NOW_MS),
    "accept_claimed": lambda d: transitions.accept_claimed(
        d, holder="w1", phase="inline", lease_until_ms=NOW_MS + LEASE_MS
    ),
    "waive_doubt": transitions.waive_doubt,
    "rely_on_token": transitions.rely_on_token,
    "dispel_doubt": transitions.dispel_doubt,
    "await_evidence": lambda d: transitions.await_evidence(
        d, now_ms=NOW_MS, due_at_ms=NOW_MS + 1000
    ),
    "fan_out": lambda d: transitions.fan_out(d, (), now_ms=NOW_MS),
    "keep_waiting": lambda d: transitions.keep_waiting(d, now_ms=NOW_MS),
    "fail_with_children": lambda d: transitions.fail_with_children(
        d, {"rejected": 1}, plan=SEND, now_ms=NOW_MS
    ),
    "replay": lambda d: transitions.replay(d, actor="ann", reason="again", now_ms=NOW_MS),
    "restart": lambda d: transitions.restart(
        d, plan=SEND, actor="ann", reason="again", now_ms=NOW_MS
    ),
    "dismiss": lambda d: transitions.dismiss(d, now_ms=NOW_MS),
    "cancel": lambda d: transitions.cancel(d, plan=SEND, now_ms=NOW_MS),
    "restore": lambda d: transitions.restore(d, now_ms=NOW_MS),
    "confirm": lambda d: transitions.confirm(d, plan=SEND, evidence="seen", now_ms=NOW_MS),
    "amend": lambda d: transitions.amend(d, b"better", plan=SEND, now_ms=NOW_MS),
    "mark_notified": lambda d: transitions.mark_notified(d, ("alert",)),
}


class Example(Struct, frozen=True):
    """A way along an edge that the plain call does not take."""

    verb: str
    target: State
    change: Callable[[], Change]


EXAMPLES = (
    Example(
        "cancel",
        "failed",
        lambda: transitions.cancel(pending(maybe_sent_at_ms=NOW_MS), plan=SEND, now_ms=NOW_MS),
    ),
    Example(
        "fail",
        "failed",
        lambda: transitions.fail(claimed(), HARD, plan=SEND, now_ms=NOW_MS, roll=0.0),
    ),
    Example(
        "succeed",
        "failed",
        lambda: transitions.succeed(
            claimed(addressed("a@example.org", "b@example.org")),
            plan=SEND,
            now_ms=NOW_MS,
            roll=0.0,
            refused=BOUNCED,
        ),
    ),
    Example(
        "succeed",
        "pending",
        lambda: transitions.succeed(
            claimed(addressed("a@example.org", "b@example.org")),
            plan=SEND,
            now_ms=NOW_MS,
            roll=0.0,
            refused=PUT_OFF,
        ),
    ),
    Example(
        "advance",
        "in_flight",
        lambda: transitions.advance(
            claimed(pending(stage="render")), plan=STAGED, now_ms=NOW_MS, keep_until_ms=NOW_MS + 1
        ),
    ),
    Example(
        "settle_found",
        "failed",
        lambda: transitions.settle_found(
            claimed(pending(recipients=(Recipient("b@example.org", "refused"),))),
            plan=SEND,
            now_ms=NOW_MS,
            receipt=Receipt("n1"),
        ),
    ),
    Example(
        "suppress",
        "failed",
        lambda: transitions.suppress(
            claimed(after_failure(failure=LOST)), SKIPPED, plan=SEND, now_ms=NOW_MS
        ),
    ),
    Example(
        "note_interruption",
        "pending",
        lambda: transitions.note_interruption(
            claimed(claimed()), plan=plan(interrupted_counts=True), now_ms=NOW_MS, roll=0.0
        ),
    ),
    Example("restore", "pending", lambda: transitions.restore(cancelled(), now_ms=NOW_MS)),
    Example(
        "restore",
        "waiting",
        lambda: transitions.restore(cancelled(fanned_out=True, due_at_ms=None), now_ms=NOW_MS),
    ),
    Example(
        "confirm",
        "delivered",
        lambda: transitions.confirm(
            failed(LOST), plan=SEND, evidence="seen in the inbox", now_ms=NOW_MS
        ),
    ),
    Example(
        "confirm",
        "failed",
        lambda: transitions.confirm(
            replace(failed(LOST), recipients=(Recipient("b@example.org", "refused"),)),
            plan=SEND,
            evidence="seen in the inbox",
            now_ms=NOW_MS,
        ),
    ),
)


def test_every_transition_is_called_here() -> None:
    assert set(CALLS) == set(EDGES)


def test_every_state_has_an_example() -> None:
    assert {state: make().state for state, make in IN_STATE.items()} == {s: s for s in STATES}


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("verb", sorted(EDGES))
def test_a_verb_works_exactly_in_its_declared_states(verb: str, state: State) -> None:
    before = IN_STATE[state]()
    if verb == "confirm" and state == "failed":
        before = failed(LOST)  # only an uncertain one can be confirmed

    if state in EDGES[verb].sources:
        assert CALLS[verb](before).delivery.state in EDGES[verb].targets
        return

    with pytest.raises(NotAllowed) as refusal:
        CALLS[verb](before)
    assert verb.replace("_", " ") in str(refusal.value)
    assert f"it is {state}" in str(refusal.value)
    assert before.id in str(refusal.value)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda e: f"{e.verb}-{e.target}")
def test_every_other_way_along_an_edge(example: Example) -> None:
    assert example.change().delivery.state == example.target


def test_no_edge_is_declared_that_nothing_can_take() -> None:
    plain = {
        (verb, CALLS[verb](IN_STATE[state]()).delivery.state)
        for verb, edge in EDGES.items()
        for state in edge.sources
        if verb != "confirm"
    }
    shown = {(example.verb, example.target) for example in EXAMPLES}

    declared = {(verb, target) for verb, edge in EDGES.items() for target in edge.targets}
    assert declared == plain | shown


@pytest.mark.parametrize("verb", ["amend", "mark_notified"])
def test_verbs_that_are_not_about_the_state_leave_it(verb: str) -> None:
    for state in EDGES[verb].sources:
        assert CALLS[verb](IN_STATE[state]()).delivery.state == state


def test_a_transition_that_ends_where_it_may_not_is_a_programmers_fault() -> None:
    @transition(sources=("pending",), targets=("delivered",))
    def astray(delivery: Delivery) -> Change:
        """Says one thing and does another."""
        return Change(replace(delivery, state="failed"))

    try:
        with pytest.raises(AssertionError, match="astray may not lead to failed"):
            astray(pending())
    finally:
        del EDGES["astray"]


def test_every_edge_says_what_it_means() -> None:
    assert [edge.name for edge in EDGES.values() if not edge.meaning.endswith(".")] == []


@pytest.mark.parametrize("state", STATES)
def test_only_what_has_ended_is_resent(state: State) -> None:
    def resend() -> Delivery:
        return transitions.clone(
            IN_STATE[state](),
            Content(b"hello"),
            plan=SEND,
            new_id="d2",
            source="operator",
            key="again",
            now_ms=NOW_MS,
        ).delivery

    if state in TERMINAL_STATES:
        assert (resend().state, resend().clone_of) == ("pending", "d1")
        return
    with pytest.raises(NotAllowed, match=f"cannot resend delivery d1: it is {state}"):
        resend()


def test_only_an_uncertain_dead_letter_can_be_confirmed() -> None:
    with pytest.raises(NotAllowed, match="cannot confirm delivery d1: it is not uncertain"):
        CALLS["confirm"](failed(HARD))


def test_the_last_stage_does_not_advance_and_a_suppression_is_no_failure() -> None:
    with pytest.raises(AssertionError, match="'send' is the last"):
        transitions.advance(claimed(), plan=SEND, now_ms=NOW_MS)
    with pytest.raises(AssertionError, match="use suppress"):
        transitions.fail(claimed(), SKIPPED, plan=SEND, now_ms=NOW_MS, roll=0.0)
    with pytest.raises(LookupError, match="no stage 'gone'"):
        transitions.advance(claimed(pending(stage="gone")), plan=SEND, now_ms=NOW_MS)


def test_a_send_that_may_be_out_is_not_given_back() -> None:
    with pytest.raises(NotAllowed, match="cannot release delivery d1: it may have been sent"):
        CALLS["release"](marked())


def test_stage_by_name() -> None:
    first, last = stage("a"), stage("b")
    staged = plan(first, last)

    assert (staged.stage("b"), staged.stage_after("a"), staged.stage_after("b")) == (
        last,
        last,
        None,
    )
