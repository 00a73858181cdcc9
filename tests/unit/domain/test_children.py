"""Parents and children: one becomes several, and waits for them."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from homing.domain import transitions
from homing.domain.delivery import Change, Delivery, FailedBecause, Receipt
from homing.testing import samples
from tests.unit.domain.lives import (
    HARD,
    LOST,
    NOW_MS,
    SEND,
    SKIPPED,
    SOFT,
    STAGED,
    cancelled,
    claimed,
    failed,
    pending,
    waiting,
)


def dead(parent_id: str | None) -> Delivery:
    return replace(failed(LOST), parent_id=parent_id)


# What each change adds to the parent's count of open children, and why.
DELTAS: dict[str, tuple[int, Callable[[str | None], Change]]] = {
    "delivered": (
        -1,
        lambda parent: transitions.succeed(
            claimed(pending(parent_id=parent)), plan=SEND, now_ms=NOW_MS, roll=0.0
        ),
    ),
    "found": (
        -1,
        lambda parent: transitions.settle_found(
            claimed(pending(parent_id=parent)),
            plan=SEND,
            now_ms=NOW_MS,
            receipt=Receipt(),
        ),
    ),
    "suppressed": (
        -1,
        lambda parent: transitions.suppress(
            claimed(pending(parent_id=parent)), SKIPPED, plan=SEND, now_ms=NOW_MS
        ),
    ),
    "rejected": (
        -1,
        lambda parent: transitions.fail(
            claimed(pending(parent_id=parent)), HARD, plan=SEND, now_ms=NOW_MS, roll=0.0
        ),
    ),
    "given up": (
        -1,
        lambda parent: transitions.dead_letter(
            claimed(pending(parent_id=parent)), "expired", plan=SEND, now_ms=NOW_MS
        ),
    ),
    "cancelled": (
        -1,
        lambda parent: transitions.cancel(pending(parent_id=parent), plan=SEND, now_ms=NOW_MS),
    ),
    "tried again": (
        0,
        lambda parent: transitions.fail(
            claimed(pending(parent_id=parent)), SOFT, plan=SEND, now_ms=NOW_MS, roll=0.0
        ),
    ),
    "replayed": (
        1,
        lambda parent: transitions.replay(dead(parent), actor="ann", reason="again", now_ms=NOW_MS),
    ),
    "restarted": (
        1,
        lambda parent: transitions.restart(
            dead(parent), plan=SEND, actor="ann", reason="again", now_ms=NOW_MS
        ),
    ),
    "restored": (1, lambda parent: transitions.restore(cancelled(parent_id=parent), now_ms=NOW_MS)),
    "dismissed": (0, lambda parent: transitions.dismiss(dead(parent), now_ms=NOW_MS)),
    "dismissal undone": (
        0,
        lambda parent: transitions.restore(
            transitions.dismiss(dead(parent), now_ms=NOW_MS).delivery, now_ms=NOW_MS
        ),
    ),
    "confirmed": (
        0,
        lambda parent: transitions.confirm(dead(parent), plan=SEND, evidence="seen", now_ms=NOW_MS),
    ),
    "amended": (
        0,
        lambda parent: transitions.amend(dead(parent), b"better", plan=SEND, now_ms=NOW_MS),
    ),
}


@pytest.mark.parametrize("what", DELTAS)
def test_a_child_counts_itself_off_when_it_ends_and_on_when_it_comes_back(what: str) -> None:
    delta, change = DELTAS[what]

    assert change("p1").child_delta == delta
    assert change(None).child_delta == 0


def test_a_parent_waits_for_its_children_and_holds_nobody_up() -> None:
    children = (samples.child("c1", "d1"), samples.child("c2", "d1"))

    change = transitions.fan_out(claimed(), children, now_ms=NOW_MS, result=b"plan")

    after = change.delivery
    assert (after.state, after.fanned_out, after.holder, after.due_at_ms) == (
        "waiting",
        True,
        None,
        None,
    )
    assert (change.children, change.results) == (children, {"send": b"plan"})
    assert change.ended == ()


def test_a_parent_that_looked_too_early_goes_on_waiting() -> None:
    after = transitions.keep_waiting(claimed(waiting()), now_ms=NOW_MS).delivery

    assert (after.state, after.fanned_out, after.holder, after.unsettled_claims) == (
        "waiting",
        True,
        None,
        0,
    )


@pytest.mark.parametrize(
    ("reasons", "because"),
    [
        ({"rejected": 3}, "rejected"),
        ({"rejected": 3, "exhausted": 1}, "exhausted"),
        ({"expired": 1, "poison": 1}, "poison"),
        ({"rejected": 5, "exhausted": 5, "poison": 1, "expired": 1, "uncertain": 1}, "uncertain"),
    ],
)
def test_a_parent_takes_over_the_gravest_reason(
    reasons: dict[FailedBecause, int], because: FailedBecause
) -> None:
    change = transitions.fail_with_children(claimed(waiting()), reasons, plan=SEND, now_ms=NOW_MS)

    after = change.delivery
    assert (after.state, after.failed_because) == ("failed", because)
    assert after.failure is not None
    assert after.failure.detail == f"required children that failed: {sum(reasons.values())}"


def test_a_parent_that_is_replayed_looks_at_its_children_again() -> None:
    ended = transitions.fail_with_children(
        claimed(waiting()), {"rejected": 1}, plan=SEND, now_ms=NOW_MS
    ).delivery

    after = transitions.replay(ended, actor="ann", reason="again", now_ms=NOW_MS).delivery

    assert (after.state, after.fanned_out) == ("pending", True)


def test_the_next_stage_may_fan_out_anew() -> None:
    after = transitions.advance(
        claimed(waiting(stage="render")), plan=STAGED, now_ms=NOW_MS
    ).delivery

    assert (after.stage, after.fanned_out) == ("send", False)
