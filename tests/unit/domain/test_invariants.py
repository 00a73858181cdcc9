"""Whatever happens to a delivery, in whatever order and under whatever plan: what always holds.

The machine below plays worker, provider, crash and operator. It keeps a ledger of its own of
whom an attempt may have reached; the delivery's word is held against it (I6, I7, I16, I20).
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from msgspec.structs import replace

from homing.domain import transitions
from homing.domain.delivery import TERMINAL_STATES, Attempt, Change, Content, Delivery, Receipt
from homing.domain.failure import Failure, Refusal
from homing.domain.policy import Plan, Stage
from homing.testing import samples
from tests.unit.domain.lives import LEASE_MS, NOW_MS, SKIPPED, addressed
from tests.unit.domain.plans import ADDRESSES, failures, plans, refusals, rolls

NOBODY = ("",)
"""Stands for the one receiver of what has no recipients."""


def when(*states: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    return precondition(lambda life: life.delivery.state in states and not life.forgotten)


def in_hand(life: Life) -> bool:
    """Claimed by an owner that has noted what was before it."""
    return life.delivery.state == "in_flight" and life.delivery.claims == 1


def may_begin(life: Life) -> bool:
    """As the engine asks before it calls a step."""
    unmarked = in_hand(life) and not life.delivery.committing and not life.delivery.fanned_out
    return unmarked and transitions.overspent(life.delivery, life.plan) is None


def may_end(life: Life) -> bool:
    """An attempt is under way: marked, or of a stage that needs no mark."""
    marked = in_hand(life) and life.delivery.committing
    return marked or (may_begin(life) and not life.stage.sends)


def in_doubt(life: Life) -> bool:
    return in_hand(life) and life.delivery.maybe_sent and not life.delivery.committing


class Life(RuleBasedStateMachine):
    """One delivery, from its acceptance to wherever the rules lead it."""

    plan: Plan
    delivery: Delivery

    @initialize(
        plan=plans,
        recipients=st.integers(0, 3),
        parent_id=st.sampled_from([None, "parent"]),
        inline=st.booleans(),
        expires=st.booleans(),
    )
    def accept(
        self, plan: Plan, recipients: int, parent_id: str | None, inline: bool, expires: bool
    ) -> None:
        self.plan = plan
        self.now_ms = NOW_MS
        self.forgotten = False
        self.ledger: list[Attempt] = []
        self.counted = 0
        self.maybe_reached: set[str] = set()
        self.delivery = addressed(
            *ADDRESSES[:recipients],
            stage=plan.first_stage.name,
            parent_id=parent_id,
            expires_at_ms=NOW_MS + 10**6 if expires else None,
        )
        if inline:
            self.apply(self.claim_by("inline"))
            self.delivery = replace(self.delivery, phase="inline")

    @property
    def stage(self) -> Stage:
        return self.plan.stage(self.delivery.stage)

    @property
    def is_last_stage(self) -> bool:
        return self.plan.stage_after(self.delivery.stage) is None

    @property
    def open_receivers(self) -> set[str]:
        return set(self.delivery.open_addresses or ([] if self.delivery.recipients else NOBODY))

    def claim_by(self, holder: str) -> Change:
        return transitions.claim(
            self.delivery,
            holder=holder,
            now_ms=self.now_ms,
            lease_until_ms=self.now_ms + LEASE_MS,
        )

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
        self.forgotten = change.forget
        self.now_ms += 1000

    def check_ledger(self, before: Delivery, change: Change) -> None:
        numbers = [attempt.number for attempt in change.ended]
        assert numbers == list(range(before.attempt_no + 1, before.attempt_no + 1 + len(numbers)))
        assert change.delivery.attempt_no == before.attempt_no + len(numbers)
        assert all(a.cycle == before.cycle and a.stage == before.stage for a in change.ended)
        self.ledger.extend(change.ended)
        self.counted += sum(attempt.counted for attempt in change.ended)

    def check_recipients(self, before: Delivery, after: Delivery) -> None:
        assert [r.address for r in after.recipients] == [r.address for r in before.recipients]
        for was, now in zip(before.recipients, after.recipients, strict=True):
            assert was.outcome != "accepted" or now == was

    def check_family(self, before: Delivery, change: Change) -> None:
        ended = int(change.delivery.is_terminal) - int(before.is_terminal)
        assert change.child_delta == (-ended if before.parent_id else 0)

    @rule()
    @when("pending", "waiting")
    def claim(self) -> None:
        self.apply(self.claim_by("w1"))

    @rule()
    @when("in_flight")
    def crash(self) -> None:
        """The owner ends in silence and another one claims; after the mark nobody knows."""
        if in_hand(self) and self.delivery.committing:
            self.maybe_reached |= self.open_receivers
        self.apply(self.claim_by("w2"))

    @rule()
    @when("in_flight")
    def end_lease(self) -> None:
        self.apply(transitions.end_lease(self.delivery, now_ms=self.now_ms))

    @rule(roll=rolls)
    @precondition(lambda life: life.delivery.state == "in_flight" and life.delivery.claims > 1)
    def note_interruption(self, roll: float) -> None:
        self.apply(
            transitions.note_interruption(
                self.delivery, plan=self.plan, now_ms=self.now_ms, roll=roll
            )
        )

    @rule(roll=rolls)
    @precondition(
        lambda life: (
            life.delivery.state == "in_flight" and not (life.delivery.committing and in_hand(life))
        )
    )
    def release(self, roll: float) -> None:
        self.apply(
            transitions.release(self.delivery, plan=self.plan, now_ms=self.now_ms, roll=roll)
        )

    @rule()
    @precondition(lambda life: may_begin(life) and life.stage.sends)
    def mark(self) -> None:
        self.apply(
            transitions.mark_committing(
                self.delivery,
                now_ms=self.now_ms,
                lease_until_ms=self.now_ms + LEASE_MS,
                frozen={},
            )
        )

    @rule(refused=refusals, roll=rolls)
    @precondition(may_end)
    def done(self, refused: dict[str, Refusal], roll: float) -> None:
        if not self.is_last_stage:
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

    @rule(failure=failures, roll=rolls, can_look=st.booleans())
    @precondition(lambda life: may_end(life) or may_begin(life))
    def fail(self, failure: Failure, roll: float, can_look: bool) -> None:
        if failure.maybe_sent:
            self.maybe_reached |= self.open_receivers - set(failure.refused)
        self.apply(
            transitions.fail(
                self.delivery,
                failure,
                plan=self.plan,
                now_ms=self.now_ms,
                roll=roll,
                can_look=can_look,
            )
        )
        is_scheduled = self.delivery.state == "pending" and failure.disposition == "retry"
        if is_scheduled and self.delivery.expires_at_ms is None:
            due_in_ms = (self.delivery.due_at_ms or 0) - (self.now_ms - 1000)
            assert due_in_ms >= (failure.retry_after_s or 0) * 1000

    @rule()
    @precondition(may_end)
    def suppress(self) -> None:
        self.apply(transitions.suppress(self.delivery, SKIPPED, plan=self.plan, now_ms=self.now_ms))

    @rule()
    @precondition(in_hand)
    def give_up(self) -> None:
        """In the middle of a marked send nobody gives up."""
        if not self.delivery.committing:
            because = transitions.overspent(self.delivery, self.plan) or "expired"
            self.apply(
                transitions.give_up(self.delivery, because, plan=self.plan, now_ms=self.now_ms)
            )

    @rule()
    @precondition(in_doubt)
    def find(self) -> None:
        self.maybe_reached.clear()
        self.apply(
            transitions.settle_found(
                self.delivery, plan=self.plan, now_ms=self.now_ms, receipt=Receipt("n-1")
            )
        )

    @rule()
    @precondition(in_doubt)
    def find_absent(self) -> None:
        self.maybe_reached.clear()
        self.delivery = transitions.dispel_doubt(self.delivery)

    @rule()
    @precondition(in_doubt)
    def waive(self) -> None:
        self.delivery = transitions.waive_doubt(self.delivery)

    @rule()
    @precondition(in_doubt)
    def ask_later(self) -> None:
        self.apply(
            transitions.await_evidence(
                self.delivery, now_ms=self.now_ms, due_at_ms=self.now_ms + 1000
            )
        )

    @rule()
    @precondition(lambda life: may_begin(life) and not life.stage.sends)
    def fan_out(self) -> None:
        children = (samples.child("c1", self.delivery.id),)
        self.apply(transitions.fan_out(self.delivery, children, now_ms=self.now_ms))

    @rule(roll=rolls)
    @precondition(lambda life: in_hand(life) and life.delivery.fanned_out)
    def join(self, roll: float) -> None:
        if self.is_last_stage:
            self.maybe_reached.clear()
            self.apply(
                transitions.succeed(self.delivery, plan=self.plan, now_ms=self.now_ms, roll=roll)
            )
            return
        self.maybe_reached.clear()
        self.apply(transitions.advance(self.delivery, plan=self.plan, now_ms=self.now_ms))
        self.counted = 0

    @rule()
    @precondition(lambda life: in_hand(life) and life.delivery.fanned_out)
    def keep_waiting(self) -> None:
        self.apply(transitions.keep_waiting(self.delivery, now_ms=self.now_ms))

    @rule()
    @precondition(lambda life: in_hand(life) and life.delivery.fanned_out)
    def fail_with_children(self) -> None:
        self.apply(
            transitions.fail_with_children(
                self.delivery, {"exhausted": 1}, plan=self.plan, now_ms=self.now_ms
            )
        )

    @rule(restart=st.booleans())
    @when("failed")
    def replay(self, restart: bool) -> None:
        before = self.delivery
        if restart:
            change = transitions.restart(
                before, plan=self.plan, actor="ann", reason="fixed", now_ms=self.now_ms
            )
        else:
            change = transitions.replay(before, actor="ann", reason="fixed", now_ms=self.now_ms)
        self.counted = 0
        self.apply(change)
        assert self.delivery.failure_history[:-1] == before.failure_history
        assert self.delivery.failure_history[-1].failed_because == before.failed_because

    @rule()
    @when("failed")
    def dismiss(self) -> None:
        self.apply(transitions.dismiss(self.delivery, now_ms=self.now_ms))

    @rule()
    @when("pending", "waiting")
    def cancel(self) -> None:
        self.apply(transitions.cancel(self.delivery, now_ms=self.now_ms))

    @rule()
    @when("dismissed")
    def restore(self) -> None:
        self.apply(transitions.restore(self.delivery, now_ms=self.now_ms))

    @rule()
    @precondition(lambda life: life.delivery.failed_because == "uncertain")
    @when("failed")
    def confirm(self) -> None:
        self.maybe_reached.clear()
        self.apply(
            transitions.confirm(self.delivery, plan=self.plan, evidence="seen", now_ms=self.now_ms)
        )

    @rule()
    @when("pending", "failed")
    def amend(self) -> None:
        if self.delivery.state == "pending":
            self.counted = 0
        self.apply(transitions.amend(self.delivery, b"better", plan=self.plan, now_ms=self.now_ms))

    @rule()
    @precondition(lambda life: bool(life.delivery.owed))
    @when("pending", "waiting", *TERMINAL_STATES)
    def pay(self) -> None:
        self.apply(transitions.pay(self.delivery, self.delivery.owed[:1]))

    @rule()
    @when(*TERMINAL_STATES)
    def resend(self) -> None:
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

    @invariant()
    def its_state_and_its_fields_agree(self) -> None:
        now = self.delivery
        assert (now.failed_because is not None) == (
            now.state == "failed" or (now.state == "dismissed" and now.failed_because is not None)
        )
        assert (now.ended_at_ms is not None) == (now.state in TERMINAL_STATES)
        assert (now.holder is not None) == (now.state == "in_flight")
        assert (now.claimed_at_ms is not None) == (now.state == "in_flight")
        assert (now.due_at_ms is not None) == (now.state in ("pending", "in_flight"))
        assert now.state == "in_flight" or not now.committing

    @invariant()
    def what_was_maybe_sent_is_never_called_not_sent(self) -> None:
        unnoted = self.delivery.committing and self.delivery.claims > 1
        if self.maybe_reached and not unnoted:
            assert self.delivery.maybe_sent
            assert self.delivery.failed_because in (None, "uncertain")
            assert self.delivery.state not in ("suppressed", "delivered")

    @invariant()
    def delivered_means_that_everybody_has_it(self) -> None:
        if self.delivery.state == "delivered":
            assert {r.outcome for r in self.delivery.recipients} <= {"accepted"}
            assert self.delivery.receipt is not None

    @invariant()
    def no_budget_is_overdrawn(self) -> None:
        now = self.delivery
        assert now.attempts <= self.stage.retry.max_attempts
        assert now.attempts == self.counted
        assert now.crashes <= now.attempt_no

    @invariant()
    def the_cycles_are_all_written_down(self) -> None:
        now = self.delivery
        assert [cycle.number for cycle in now.failure_history] == list(range(1, now.cycle))

    @invariant()
    def it_can_be_stored(self) -> None:
        packed = msgspec.msgpack.encode(self.delivery)
        assert msgspec.msgpack.decode(packed, type=Delivery) == self.delivery


def test_the_invariants_hold_over_any_life() -> None:
    run_state_machine_as_test(
        Life, settings=settings(max_examples=150, stateful_step_count=40, deadline=None)
    )


def test_i6_delivered_and_suppressed_are_final() -> None:
    for state in ("delivered", "suppressed"):
        leaving = {name for name, edge in transitions.EDGES.items() if state in edge.sources}
        assert leaving == {"pay"}
