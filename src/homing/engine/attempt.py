"""One attempt: settle what is in doubt, run the stage's step, turn its outcome into a change."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import TypeAlias, cast

from msgspec.structs import replace

from homing.domain import identity, transitions
from homing.domain.delivery import (
    TERMINAL_STATES,
    Change,
    Delivery,
    Fact,
    FailedBecause,
    Receipt,
    State,
)
from homing.domain.errors import StoreError
from homing.domain.failure import (
    RECIPIENT_DEFERRED,
    RECIPIENT_REFUSED,
    TIMED_OUT,
    Disposition,
    Failure,
    Refusal,
)
from homing.domain.policy import Plan, Stage
from homing.engine.claimed_work import ClaimedWork, ClaimLost, DoubtSettled
from homing.engine.family import count_children
from homing.engine.gate import Gate
from homing.engine.process import Process
from homing.engine.route import Route, classify_exception
from homing.engine.save_batcher import PendingSave
from homing.engine.time_limits import TimeLimits
from homing.ports import Absent, Done, FanOut, Found, Outcome, Unknown

log = logging.getLogger("homing.engine")

Verdict: TypeAlias = tuple[str, Change]

Judge: TypeAlias = Callable[[Exception | Failure, Stage], Failure]
OnRouteFault: TypeAlias = Callable[[Route, Failure], tuple[Fact, ...]]


class AttemptRunner:
    """Runs attempts for workers and for inline calls alike."""

    def __init__(
        self,
        process: Process,
        gate: Gate,
        *,
        on_route_fault: OnRouteFault,
        read_back: Callable[[], Awaitable[object]],
    ) -> None:
        self.process = process
        self._on_route_fault = on_route_fault
        self._read_back = read_back
        self._limits = TimeLimits()
        self.gate = gate

    async def run(self, held: ClaimedWork, *, wait: bool = False) -> str | None:
        """Carry the holding to its next resting state; the name of the transition, or None.

        With `wait` the outcome is durable when this returns. A finished send is always waited
        for, so that no more of them are at risk than there are slots.
        """
        if held.delivery.unsettled_claims > 1:
            plan = held.route.plan_of(held.delivery)
            change = transitions.note_interruption(
                held.delivery,
                plan=plan,
                now_ms=self.process.clock.now_ms(),
                roll=self.process.dice.roll(),
            )
            if not await held.write("note_interruption", change):
                return None
            if change.delivery.state == "pending":
                return "note_interruption"
        try:
            while True:
                verdict: Verdict | None
                try:
                    verdict = await self._try(held)
                except StoreError:
                    raise
                except Exception as error:
                    verdict = self._on_raised(error, held)
                if verdict is None:
                    return None
                name, change = verdict
                if name != "advance" or change.delivery.state != "in_flight":
                    return await self._settle(held, name, change, wait=wait)
                if not await held.write(name, change):
                    return None
        finally:
            held.give_permit_back()

    async def _settle(
        self, held: ClaimedWork, name: str, change: Change, *, wait: bool
    ) -> str | None:
        settlement = self.settlement(held, name, change)
        if not (wait or settlement.must_keep):
            self.process.saves.put(settlement)
            if not self.process.saves.has_room:
                await self.process.saves.room()
            held.delivery = change.delivery
            return name
        if not await self.process.saves.write(settlement):
            held.lost = True
            return None
        held.delivery = replace(change.delivery, version=change.delivery.version + 1)
        return name

    def settlement(self, held: ClaimedWork, name: str, change: Change) -> PendingSave:
        return PendingSave(
            name,
            change,
            held.delivery,
            held.lease_end_s,
            must_keep=held.delivery.committing,
            facts=self._route_facts(held.route, change),
        )

    def _route_facts(self, route: Route, change: Change) -> tuple[Fact, ...]:
        if change.ended and change.ended[-1].status == "route_fault" and change.delivery.failure:
            return self._on_route_fault(route, change.delivery.failure)
        return ()

    async def _try(self, held: ClaimedWork) -> Verdict:
        """What the attempt comes to."""
        plan = held.route.plan_of(held.delivery)
        if held.delivery.maybe_sent:
            settled = await self._settle_doubt(held, plan)
            if settled is not None:
                return settled
        delivery, now_ms = held.delivery, self.process.clock.now_ms()
        if delivery.expires_at_ms is not None and now_ms >= delivery.expires_at_ms:
            return "expire", transitions.dead_letter(delivery, "expired", plan=plan, now_ms=now_ms)
        if (because := transitions.overspent(delivery, plan)) is not None:
            return because, transitions.dead_letter(delivery, because, plan=plan, now_ms=now_ms)
        if delivery.fanned_out:
            return await self._join(delivery, plan)
        return self._change_for(held, plan, await self._call_step(held, plan))

    def conclude(self, held: ClaimedWork, outcome: Outcome) -> Verdict:
        """What a step's outcome comes to, for a step that was called elsewhere."""
        try:
            plan = held.route.plan_of(held.delivery)
            return self._change_for(held, plan, self._judged(held, plan, outcome))
        except Exception as error:
            return self._on_fault(error, held)

    def _judged(self, held: ClaimedWork, plan: Plan, outcome: Outcome) -> Outcome:
        return judged(outcome, plan.stage(held.delivery.stage), held.route.judge)

    def _on_raised(self, error: Exception, held: ClaimedWork) -> Verdict | None:
        """None: the claim was lost, and somebody else decides."""
        if isinstance(error, ClaimLost):
            return None
        if isinstance(error, DoubtSettled):
            change = transitions.settle_found(
                held.delivery,
                plan=held.route.plan_of(held.delivery),
                now_ms=self.process.clock.now_ms(),
                receipt=error.receipt,
            )
            return "settle_found", change
        return self._on_fault(error, held)

    def _on_fault(self, error: Exception, held: ClaimedWork) -> Verdict:
        """A fault of ours or of a step's is a failed attempt, and in the end a dead letter."""
        plan, now_ms = held.route.plan_of(held.delivery), self.process.clock.now_ms()
        log.error("the attempt of %s went wrong", held.delivery.id, exc_info=error)
        failure = replace(
            classify_exception(error),
            error_class="engine_error",
            maybe_sent=held.delivery.committing,
        )
        if any(stage.name == held.delivery.stage for stage in plan.stages):
            return self._change_for(held, plan, failure)
        # The plan has lost this stage: no policy speaks for it any more.
        failed = replace(held.delivery, failure=failure)
        return "poison", transitions.dead_letter(failed, "poison", plan=plan, now_ms=now_ms)

    async def _settle_doubt(self, held: ClaimedWork, plan: Plan) -> Verdict | None:
        """None: go on and send. Evidence first, then the token window, then the route's policy."""
        delivery, now_ms = held.delivery, self.process.clock.now_ms()
        found = await self._evidence(held)
        if isinstance(found, Found):
            change = transitions.settle_found(
                delivery, plan=plan, now_ms=now_ms, receipt=found.receipt
            )
            return "settle_found", change
        # Once some recipients have it the token is another one: that the provider has nothing
        # under it says nothing about the attempt that put the others in doubt.
        partly = any(r.outcome == "accepted" for r in delivery.recipients)
        if isinstance(found, Absent) and not partly:
            held.delivery = transitions.dispel_doubt(delivery).delivery
            return None
        since_ms = delivery.maybe_sent_at_ms or now_ms
        patient = now_ms < since_ms + plan.doubt_patience_s * 1000
        if isinstance(found, Unknown) and patient and not delivery.doubt_waived:
            due_at_ms = now_ms + max(round(found.ask_again_s * 1000), 1)
            change = transitions.await_evidence(delivery, now_ms=now_ms, due_at_ms=due_at_ms)
            return "await_evidence", change
        if self._token_still_folds(held.route, delivery, now_ms):
            held.delivery = transitions.rely_on_token(delivery).delivery
            return None
        if plan.on_doubt == "hold" and not delivery.doubt_waived:
            return "hold", transitions.dead_letter(delivery, "uncertain", plan=plan, now_ms=now_ms)
        if transitions.overspent(delivery, plan) is None:
            held.delivery = transitions.waive_doubt(delivery).delivery
        return None

    async def _evidence(self, held: ClaimedWork) -> Found | Absent | Unknown | None:
        """What an earlier owner learnt too late, or what the provider can tell."""
        delivery = held.delivery
        late = await self.late_receipt(delivery)
        if late is not None:
            return Found(late)
        lookup = held.route.lookup
        if lookup is None:
            return None
        try:
            return await lookup.lookup(identity.provider_token(delivery))
        except Exception:
            return Unknown()

    async def late_receipt(self, delivery: Delivery) -> Receipt | None:
        """The acceptance that an earlier owner could not store, or learnt of too late."""
        await self._read_back()
        for fact in await self.process.store.facts("late_outcome", f"{delivery.id}/"):
            value = fact.value or {}
            if int(value.get("payload_no") or 1) != delivery.payload_no:
                continue
            if value.get("status") == "done" and value.get("stage") == delivery.stage:
                return Receipt(str(value.get("notification_id") or ""), evidence="late")
        return None

    def _token_still_folds(self, route: Route, delivery: Delivery, now_ms: int) -> bool:
        if route.provider is None or delivery.committed_at_ms is None:
            return False
        # Half of the window is kept back for clocks that disagree and for the send itself.
        window_ms = route.provider.token_window_s * 500
        # A mark dated in the future shows that clocks disagree: then no window is trusted.
        return window_ms > 0 and 0 <= now_ms - delivery.committed_at_ms < window_ms

    async def _call_step(self, held: ClaimedWork, plan: Plan) -> Outcome:
        stage = plan.stage(held.delivery.stage)
        try:
            step = held.route.steps[stage.name]
            outcome = await self._limits.bound(step(held), stage.timeout_s)
        except (ClaimLost, DoubtSettled):
            raise
        except TimeoutError:
            detail = f"no answer within {stage.timeout_s:g} s"
            outcome = Failure(TIMED_OUT, detail=detail, maybe_sent=held.delivery.committing)
        except Exception as error:
            failure = held.route.judge(error, stage)
            return replace(failure, maybe_sent=failure.maybe_sent or held.delivery.committing)
        return self._judged(held, plan, outcome)

    async def _join(self, delivery: Delivery, plan: Plan) -> Verdict:
        """A parent looks at its children: all ended well, some failed, or not all ended."""
        counts = await count_children(self.process.store, delivery)
        now_ms = self.process.clock.now_ms()
        reasons: dict[FailedBecause, int] = {}
        for (state, required, because), number in counts.items():
            if cast(State, state) not in TERMINAL_STATES:
                return "keep_waiting", transitions.keep_waiting(delivery, now_ms=now_ms)
            if state in ("failed", "dismissed") and required == "true":
                reason = cast(FailedBecause, because or "rejected")
                reasons[reason] = reasons.get(reason, 0) + number
        if reasons:
            change = transitions.fail_with_children(delivery, reasons, plan=plan, now_ms=now_ms)
            return "fail_with_children", change
        return self._finish_stage(delivery, plan, Done(), now_ms)

    def _change_for(self, held: ClaimedWork, plan: Plan, outcome: Outcome) -> Verdict:
        delivery, now_ms = held.delivery, self.process.clock.now_ms()
        if isinstance(outcome, Done):
            keep_until_ms = None
            if delivery.phase == "inline":
                keep_until_ms = self.process.lease_until_ms(held.route)
            return self._finish_stage(delivery, plan, outcome, now_ms, keep_until_ms)
        if isinstance(outcome, FanOut):
            change = transitions.fan_out(
                delivery, outcome.children, now_ms=now_ms, result=outcome.result
            )
            return "fan_out", change
        if outcome.disposition == "suppress":
            return "suppress", transitions.suppress(delivery, outcome, plan=plan, now_ms=now_ms)
        change = transitions.fail(
            delivery,
            outcome,
            plan=plan,
            now_ms=now_ms,
            roll=self.process.dice.roll(),
            can_look=held.route.lookup is not None,
        )
        return "fail", change

    def _finish_stage(
        self,
        delivery: Delivery,
        plan: Plan,
        done: Done,
        now_ms: int,
        keep_until_ms: int | None = None,
    ) -> Verdict:
        if plan.stage_after(delivery.stage) is not None:
            change = transitions.advance(
                delivery, plan=plan, now_ms=now_ms, result=done.result, keep_until_ms=keep_until_ms
            )
            return "advance", change
        change = transitions.succeed(
            delivery,
            plan=plan,
            now_ms=now_ms,
            roll=self.process.dice.roll() if done.refused else 0.0,
            receipt=done.receipt,
            refused=done.refused,
            result=done.result,
        )
        return "succeed", change


def judged(outcome: Outcome, stage: Stage, judge: Judge) -> Outcome:
    """The route's own verdict on a failure, and on each recipient refused apart."""
    if isinstance(outcome, FanOut) or (isinstance(outcome, Done) and not outcome.refused):
        return outcome
    refused = {
        address: _judged_refusal(refusal, stage, judge)
        for address, refusal in outcome.refused.items()
    }
    if isinstance(outcome, Done):
        return replace(outcome, refused=refused)
    return replace(judge(outcome, stage), refused=refused)


def _judged_refusal(refusal: Refusal, stage: Stage, judge: Judge) -> Refusal:
    word = RECIPIENT_REFUSED if refusal.permanent else RECIPIENT_DEFERRED
    disposition: Disposition = "reject" if refusal.permanent else "retry"
    failure = Failure(word, disposition, code=refusal.code, detail=refusal.detail or "")
    return replace(refusal, permanent=judge(failure, stage).disposition == "reject")
