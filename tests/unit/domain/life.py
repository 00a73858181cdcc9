"""A life at random: worker, provider, crash, damage and operator, as engine and store play them.

It keeps a ledger of its own of whom an attempt may have reached, and of the attempts that
count; the delivery's word is held against both.
"""

from __future__ import annotations

from random import Random

from homing.domain import transitions
from homing.domain.delivery import (
    Change,
    Content,
    FailedBecause,
    Receipt,
)
from homing.domain.failure import Failure, Refusal
from homing.testing import samples
from tests.unit.domain.invariants import check_change, check_delivery, check_doubt
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

NO_ADDRESS = frozenset({""})
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
        self.reached_earlier: set[str] = set()
        if self.chance.randrange(3) == 0:
            # As admission stores it: already claimed by the caller, who may die at once.
            change = transitions.accept_claimed(
                self.delivery,
                holder="w1",
                phase="inline",
                lease_until_ms=self.now_ms + LEASE_MS,
            )
            self.delivery = change.delivery

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
        elif turn.finds_damage:
            # The lost line may have been the one of a send.
            self.maybe_reached |= self.open_receivers
            self.apply(transitions.hold_for_damage(self.delivery, now_ms=self.now_ms))
        elif state != "in_flight" and turn.on_pending is not None:
            self.operate("cancel" if state == "waiting" else turn.on_pending)
        else:
            self.attempt(turn)
        if self.delivery.state != "in_flight":
            given = self.delivery.notices_due[1:]
            self.apply(transitions.mark_notified(self.delivery, given, plan=self.plan))
        check_delivery(self.delivery, self.plan)
        check_doubt(self.delivery, self.maybe_reached | self.reached_earlier)
        assert self.delivery.attempts_spent == self.counted

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
        if self.delivery.committing and self.delivery.unsettled_claims == 1:
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
        if self.delivery.unsettled_claims > 1:
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
            self.apply(transitions.waive_doubt(before))
            return True
        if evidence == "hold":
            self.dead_letter("uncertain")
            return False
        if evidence == "later":
            later_ms = self.now_ms + 1000
            self.apply(transitions.await_evidence(before, now_ms=self.now_ms, due_at_ms=later_ms))
            return False
        self.maybe_reached.clear()
        if evidence == "found" or before.payload_no == 1:
            self.reached_earlier.clear()
        if evidence == "absent":
            self.apply(transitions.dispel_doubt(before))
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
            self.dead_letter(because or "expired")
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
        self.reached_earlier -= self.open_receivers - set(refused)
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

    def dead_letter(self, because: FailedBecause) -> None:
        self.apply(
            transitions.dead_letter(self.delivery, because, plan=self.plan, now_ms=self.now_ms)
        )

    def operate(self, verb: Verb) -> None:
        before, plan, now_ms = self.delivery, self.plan, self.now_ms
        if verb in ("replay", "restart"):
            self.replay(verb)
        elif verb == "dismiss":
            self.apply(transitions.dismiss(before, now_ms=now_ms))
        elif verb == "restore":
            self.apply(transitions.restore(before, now_ms=now_ms))
        elif verb == "cancel":
            self.apply(transitions.cancel(before, plan=plan, now_ms=now_ms))
        elif verb == "amend":
            self.counted = 0 if before.state == "pending" else self.counted
            self.reached_earlier |= self.maybe_reached
            self.maybe_reached.clear()
            self.apply(transitions.amend(before, b"better", plan=plan, now_ms=now_ms))
        elif before.failed_because == "uncertain":
            self.maybe_reached.clear()
            self.reached_earlier.clear()
            self.apply(transitions.confirm(before, plan=plan, evidence="seen", now_ms=now_ms))

    def replay(self, verb: Verb) -> None:
        before = self.delivery
        if verb == "restart":
            if before.stage != self.plan.first_stage.name:
                self.reached_earlier |= self.maybe_reached
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
            return NO_ADDRESS
        return frozenset(self.delivery.open_addresses)

    def apply(self, change: Change) -> None:
        """Take the change over, after all that must hold between before and after."""
        check_change(self.delivery, change, self.plan)
        self.counted += sum(attempt.counted for attempt in change.ended)
        self.delivery = change.delivery
        self.now_ms += 1000
