"""Whatever happens to a delivery, in whatever order and under whatever plan: what always holds.

The machine plays worker, provider, crash and operator. It keeps a ledger of its own of whom an
attempt may have reached; the delivery's word is held against it (I6, I7, I16, I20).
"""

from __future__ import annotations

from random import Random

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from homing.domain import transitions
from homing.domain.delivery import (
    TERMINAL_STATES,
    Change,
    Content,
    Delivery,
    FailedBecause,
    Receipt,
)
from homing.domain.failure import Failure, Refusal
from homing.testing import samples
from tests.unit.domain.lives import LEASE_MS, NOW_MS, SKIPPED
from tests.unit.domain.plans import (
    Evidence,
    Outcome,
    Turn,
    Verb,
    any_delivery,
    any_plan,
    any_turn,
)

NOBODY_BY_NAME = frozenset({""})
"""Stands for the one receiver of what has no recipients."""


class Life:
    """One delivery, from its acceptance to wherever chance leads it."""

    def __init__(self, chance: Random) -> None:
        self.chance = chance
        self.plan = any_plan(chance)
        self.now_ms = NOW_MS
        self.begin()

    def begin(self) -> None:
        self.delivery = any_delivery(self.chance, self.plan)
        self.counted = 0
        self.maybe_reached: set[str] = set()
        if self.chance.randrange(3) == 0:
            # As admission stores it: already claimed by the caller, who may die at once.
            self.claim()
            self.delivery = replace(self.delivery, phase="inline")

    def live(self, turns: int) -> None:
        for _ in range(turns):
            self.take(any_turn(self.chance))

    def take(self, turn: Turn) -> None:
        state = self.delivery.state
        if state in ("delivered", "suppressed"):
            self.check_resend()
            self.begin()
        elif state == "failed":
            self.operate(turn.on_failed)
        elif state == "dismissed":
            self.operate("restore")
        elif state != "in_flight" and turn.on_pending is not None:
            self.operate("cancel" if state == "waiting" else turn.on_pending)
        else:
            self.attempt(turn)
        if self.delivery.state != "in_flight":
            self.apply(transitions.pay(self.delivery, self.delivery.owed[1:]))
        self.check_invariants()

    def attempt(self, turn: Turn) -> None:
        """A worker claims it, new or after another's death, and goes as far as it goes."""
        self.claim()
        if turn.owner == "dies at once":
            return
        if turn.owner == "gives back":
            self.apply(
                transitions.release(
                    self.delivery, plan=self.plan, now_ms=self.now_ms, roll=turn.roll
                )
            )
            return
        goes_on = self.note_interruption(turn.roll) and self.settle_doubt(turn.evidence)
        if goes_on and self.may_begin(turn.outcome):
            self.run(turn)

    def claim(self) -> None:
        """If another one holds it, that one died; after the mark nobody knows what it did."""
        if self.delivery.committing and self.delivery.claims == 1:
            self.maybe_reached |= self.open_receivers
        change = transitions.claim(
            self.delivery,
            holder="w1",
            now_ms=self.now_ms,
            lease_until_ms=self.now_ms + LEASE_MS,
        )
        self.apply(change)

    def note_interruption(self, roll: float) -> bool:
        """Whether the worker goes on."""
        if self.delivery.claims > 1:
            self.apply(
                transitions.note_interruption(
                    self.delivery, plan=self.plan, now_ms=self.now_ms, roll=roll
                )
            )
        return self.delivery.state == "in_flight"

    def settle_doubt(self, evidence: Evidence) -> bool:
        """Whether the worker goes on and sends."""
        before = self.delivery
        if not before.maybe_sent:
            return True
        if evidence == "none":
            self.delivery = transitions.waive_doubt(before)
            return True
        if evidence == "hold":
            self.give_up("uncertain")
            return False
        if evidence == "later":
            later_ms = self.now_ms + 1000
            self.apply(transitions.await_evidence(before, now_ms=self.now_ms, due_at_ms=later_ms))
            return False
        self.maybe_reached.clear()
        if evidence == "absent":
            self.delivery = transitions.dispel_doubt(before)
            return True
        self.apply(
            transitions.settle_found(
                before, plan=self.plan, now_ms=self.now_ms, receipt=Receipt("n-1")
            )
        )
        return False

    def may_begin(self, outcome: Outcome) -> bool:
        if outcome == "dies":
            return False
        because = transitions.overspent(self.delivery, self.plan)
        if because is not None or outcome == "expires":
            self.give_up(because or "expired")
            return False
        return True

    def run(self, turn: Turn) -> None:
        """The attempt itself: the mark if the stage sends, then what came of it."""
        outcome = turn.outcome
        if self.delivery.fanned_out:
            self.join(outcome, turn.roll)
            return
        sends = self.plan.stage(self.delivery.stage).sends
        if outcome == "fans out" and not sends:
            children = (samples.child("c1", self.delivery.id),)
            self.apply(transitions.fan_out(self.delivery, children, now_ms=self.now_ms))
            return
        if sends:
            lease_until_ms = self.now_ms + LEASE_MS
            self.apply(
                transitions.mark_committing(
                    self.delivery, now_ms=self.now_ms, lease_until_ms=lease_until_ms, frozen={}
                )
            )
        if outcome == "done":
            self.finish(turn.refused, turn.roll)
        elif outcome == "skips":
            self.apply(
                transitions.suppress(self.delivery, SKIPPED, plan=self.plan, now_ms=self.now_ms)
            )
        elif outcome != "dies late":
            self.fail(turn.failure, turn.roll)

    def join(self, outcome: Outcome, roll: float) -> None:
        """The children have ended well, or badly, or not yet."""
        if outcome == "done":
            self.finish({}, roll)
        elif outcome == "fails":
            self.apply(
                transitions.fail_with_children(
                    self.delivery, {"exhausted": 1}, plan=self.plan, now_ms=self.now_ms
                )
            )
        else:
            self.apply(transitions.keep_waiting(self.delivery, now_ms=self.now_ms))

    def finish(self, refused: dict[str, Refusal], roll: float) -> None:
        if self.plan.stage_after(self.delivery.stage) is not None:
            self.maybe_reached.clear()
            self.apply(transitions.advance(self.delivery, plan=self.plan, now_ms=self.now_ms))
            self.counted = 0
            return
        self.maybe_reached -= self.open_receivers - set(refused)
        self.apply(
            transitions.succeed(
                self.delivery, plan=self.plan, now_ms=self.now_ms, roll=roll, refused=refused
            )
        )

    def fail(self, failure: Failure, roll: float) -> None:
        if failure.maybe_sent:
            self.maybe_reached |= self.open_receivers - set(failure.refused)
        failed_at_ms = self.now_ms
        self.apply(
            transitions.fail(
                self.delivery,
                failure,
                plan=self.plan,
                now_ms=failed_at_ms,
                roll=roll,
                can_look=roll < 0.5,
            )
        )
        after = self.delivery
        is_scheduled = after.state == "pending" and failure.disposition == "retry"
        if is_scheduled and after.expires_at_ms is None and after.due_at_ms is not None:
            assert after.due_at_ms - failed_at_ms >= (failure.retry_after_s or 0) * 1000

    def give_up(self, because: FailedBecause) -> None:
        self.apply(transitions.give_up(self.delivery, because, plan=self.plan, now_ms=self.now_ms))

    def operate(self, verb: Verb) -> None:
        before, plan, now_ms = self.delivery, self.plan, self.now_ms
        if verb in ("replay", "restart"):
            self.replay(verb)
        elif verb == "dismiss":
            self.apply(transitions.dismiss(before, now_ms=now_ms))
        elif verb == "restore":
            self.apply(transitions.restore(before, now_ms=now_ms))
        elif verb == "cancel":
            self.apply(transitions.cancel(before, now_ms=now_ms))
        elif verb == "amend":
            self.counted = 0 if before.state == "pending" else self.counted
            self.apply(transitions.amend(before, b"better", plan=plan, now_ms=now_ms))
        elif before.failed_because == "uncertain":
            self.maybe_reached.clear()
            self.apply(transitions.confirm(before, plan=plan, evidence="seen", now_ms=now_ms))

    def replay(self, verb: Verb) -> None:
        before = self.delivery
        if verb == "restart":
            change = transitions.restart(
                before, plan=self.plan, actor="ann", reason="fixed", now_ms=self.now_ms
            )
        else:
            change = transitions.replay(before, actor="ann", reason="fixed", now_ms=self.now_ms)
        self.counted = 0
        self.apply(change)
        assert self.delivery.failure_history[:-1] == before.failure_history
        assert self.delivery.failure_history[-1].failed_because == before.failed_because

    def check_resend(self) -> None:
        new = transitions.clone(
            self.delivery,
            Content(b"hello"),
            plan=self.plan,
            new_id="d2",
            source="operator",
            key="again",
            now_ms=self.now_ms,
        )
        assert new.delivery.open_addresses == tuple(r.address for r in self.delivery.recipients)

    @property
    def open_receivers(self) -> frozenset[str]:
        if not self.delivery.recipients:
            return NOBODY_BY_NAME
        return frozenset(self.delivery.open_addresses)

    def apply(self, change: Change) -> None:
        """Take the change over, after all that must hold between before and after."""
        before, after = self.delivery, change.delivery
        claimed_anew = after.claims == before.claims + 1
        assert after.version == before.version + int(claimed_anew)
        self.check_ledger(before, change)
        self.check_recipients(before, after)
        self.check_family(before, change)
        if after.state == "failed" and before.state not in ("failed", "dismissed"):
            assert set(self.plan.owes_on_failed) <= set(after.owed)
        self.delivery = after
        self.now_ms += 1000

    def check_ledger(self, before: Delivery, change: Change) -> None:
        numbers = [attempt.number for attempt in change.ended]
        assert numbers == list(range(before.attempt_no + 1, before.attempt_no + 1 + len(numbers)))
        assert change.delivery.attempt_no == before.attempt_no + len(numbers)
        assert all(a.cycle == before.cycle and a.stage == before.stage for a in change.ended)
        self.counted += sum(attempt.counted for attempt in change.ended)

    def check_recipients(self, before: Delivery, after: Delivery) -> None:
        assert [r.address for r in after.recipients] == [r.address for r in before.recipients]
        for was, now in zip(before.recipients, after.recipients, strict=True):
            assert was.outcome != "accepted" or now == was

    def check_family(self, before: Delivery, change: Change) -> None:
        ended = int(change.delivery.is_terminal) - int(before.is_terminal)
        assert change.child_delta == (-ended if before.parent_id else 0)

    def check_invariants(self) -> None:
        self.its_state_and_its_fields_agree()
        self.what_was_maybe_sent_is_never_called_not_sent()
        self.delivered_means_that_everybody_has_it()
        self.no_budget_is_overdrawn()
        self.the_cycles_are_all_written_down()
        self.it_can_be_stored()

    def its_state_and_its_fields_agree(self) -> None:
        now = self.delivery
        if now.state != "dismissed":
            assert (now.failed_because is not None) == (now.state == "failed")
        assert (now.ended_at_ms is not None) == (now.state in TERMINAL_STATES)
        assert (now.holder is not None) == (now.state == "in_flight")
        assert (now.claimed_at_ms is not None) == (now.state == "in_flight")
        assert (now.due_at_ms is not None) == (now.state in ("pending", "in_flight"))
        assert now.state == "in_flight" or (not now.committing and now.claims == 0)

    def what_was_maybe_sent_is_never_called_not_sent(self) -> None:
        unnoted = self.delivery.committing and self.delivery.claims > 1
        if self.maybe_reached and not unnoted:
            assert self.delivery.maybe_sent
            assert self.delivery.failed_because in (None, "uncertain")
            assert self.delivery.state not in ("suppressed", "delivered")

    def delivered_means_that_everybody_has_it(self) -> None:
        if self.delivery.state == "delivered":
            assert {r.outcome for r in self.delivery.recipients} <= {"accepted"}
            assert self.delivery.receipt is not None

    def no_budget_is_overdrawn(self) -> None:
        now = self.delivery
        assert now.attempts <= self.plan.stage(now.stage).retry.max_attempts
        assert now.attempts == self.counted
        assert now.crashes <= now.attempt_no

    def the_cycles_are_all_written_down(self) -> None:
        now = self.delivery
        assert [cycle.number for cycle in now.failure_history] == list(range(1, now.cycle))

    def it_can_be_stored(self) -> None:
        packed = msgspec.msgpack.encode(self.delivery)
        assert msgspec.msgpack.decode(packed, type=Delivery) == self.delivery


@pytest.mark.timeout(400)  # a failure is worth its shrinking; without one it takes a second
@settings(max_examples=60, deadline=None)
@given(st.randoms(use_true_random=False), st.integers(1, 25))
def test_the_invariants_hold_over_any_life(chance: Random, turns: int) -> None:
    Life(chance).live(turns)


@pytest.mark.parametrize("seed", range(5))
def test_the_invariants_hold_over_many_lives(seed: int) -> None:
    for number in range(200):
        try:
            Life(Random(f"{seed}/{number}")).live(turns=40)
        except AssertionError as error:
            error.add_note(f"in the life of Random('{seed}/{number}')")
            raise


def test_i6_delivered_and_suppressed_are_final() -> None:
    for state in ("delivered", "suppressed"):
        leaving = {name for name, edge in transitions.EDGES.items() if state in edge.sources}
        assert leaving == {"pay"}
