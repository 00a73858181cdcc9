"""The oracle's eye on the disk: every single write is compared with what must hold.

These are the cheap checks, made at the moment itself: I5, I6, I11, I13, I16, I18 to I21. What
can be judged only at the end is judged by `totals`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from homing.domain.delivery import TERMINAL_STATES, Delivery
from tests.simulation.simulator.findings import Findings
from tests.simulation.simulator.hosts import SimProcess
from tests.simulation.simulator.pauses import Pauses
from tests.simulation.simulator.route_kinds import ROUTE_KINDS, STAGES, RouteKind
from tests.simulation.simulator.send_checks import SendChecks
from tests.simulation.simulator.watched_disk import WatchedDisk

# By which audited verb a delivery may leave its end; every other way is forbidden (I6).
WAYS_OUT: dict[tuple[str, str], tuple[str, ...]] = {
    ("failed", "pending"): ("replay", "restart"),
    ("failed", "dismissed"): ("dismiss",),
    ("failed", "delivered"): ("confirm",),
    ("dismissed", "failed"): ("restore",),
    ("dismissed", "pending"): ("restore",),
    ("dismissed", "waiting"): ("restore",),
}
BACK_VERBS = frozenset({"restart", "amend"})
# Where the engine draws the line for waits that a provider asks for.
# Who has only just come may be unknown to those who look about once a second.
NEW_FOR_S = 2.0
LONGEST_WAIT_S = 366 * 86_400.0


class WriteChecks:
    """Sees every record before and after."""

    def __init__(
        self,
        disk: WatchedDisk,
        sends: SendChecks,
        pauses: Pauses,
        findings: Findings,
        _process_of: Callable[[str], SimProcess | None],
    ) -> None:
        self._disk = disk
        self._process_of = _process_of
        self._sends = sends
        self._pauses = pauses
        self._breach = findings.breach
        self.births = 0
        self.deaths: Counter[str] = Counter()
        disk.watch = self.wrote

    def wrote(self, before: Delivery | None, after: Delivery | None) -> None:
        """One record was written or removed."""
        if before is None:
            self.births += 1
            if after is not None and after.holder is not None:
                self._sends.leased(after.id)
        elif after is None:
            self._removed(before)
        elif after.version == before.version:
            if after.state != before.state or after.stage != before.stage:
                self._breach("I11", after.id, f"{before.state} -> {after.state}, same version")
            if after.due_at_ms != before.due_at_ms:
                self._sends.leased(after.id)
        else:
            self._changed(before, after)

    def _changed(self, before: Delivery, after: Delivery) -> None:
        if after.version != before.version + 1:
            self._breach("I11", after.id, f"version {before.version} -> {after.version}")
        if after.unsettled_claims > before.unsettled_claims:
            self._claimed(before, after)
        elif after.holder is not None and after.due_at_ms != before.due_at_ms:
            self._sends.leased(after.id)
        elif before.holder is not None and after.holder is None:
            self._given_back(before)
        if after.stage != before.stage:
            self._moved(before, after)
        if after.cycle != before.cycle:
            self._began_anew(before, after)
        if after.attempts_ended > before.attempts_ended:
            self._tried(before, after)
        if after.state != before.state:
            self._turned(before, after)

    def _turned(self, before: Delivery, after: Delivery) -> None:
        if before.state in TERMINAL_STATES:
            verbs = WAYS_OUT.get((before.state, after.state), ())
            if not self._audited(after.id).intersection(verbs):
                self._breach("I6", after.id, f"{before.state} -> {after.state}, no audited verb")
        elif after.state == "failed":
            self._died(after)
        elif after.state == "delivered" and after.fanned_out:
            self._joined(after)

    def _given_back(self, before: Delivery) -> None:
        """What a process has only just been given is in nobody else's hands (I15)."""
        operation = self._disk.operation
        if operation is not None and before.id in operation.process.unanswered:
            text = f"{operation.process.holder} gave it back before it had the answer"
            self._breach("I15", before.id, text)

    def _removed(self, before: Delivery) -> None:
        self._sends.wrote_outcome(before)
        if self._disk.operation is not None and self._disk.operation.name == "purge":
            self._purged(before, self._disk.operation.asked_at_ms)
            return
        fine = before.state in ("in_flight", "delivered") or "confirm" in self._audited(before.id)
        if ROUTE_KINDS[before.route].keep_delivered or not fine:
            self._breach("I5", before.id, f"removed while {before.state}")

    def _purged(self, before: Delivery, asked_at_ms: int) -> None:
        """Retention takes what has ended, after its time, and no open dead letter (I3, I5)."""
        kept_s = ROUTE_KINDS[before.route].kept_s
        ended_at_ms = before.ended_at_ms
        if kept_s is None or ended_at_ms is None or before.state == "failed":
            self._breach("I5", before.id, f"purged while {before.state}")
        elif ended_at_ms + kept_s * 1000 > asked_at_ms:
            self._breach("I5", before.id, "purged before its time")

    def _claimed(self, before: Delivery, after: Delivery) -> None:
        operation = self._disk.operation
        self._sends.claimed(after.id)
        if operation is None or operation.name != "claim":
            self._breach("I11", after.id, "in flight, and not by a claim")
        elif (before.due_at_ms or 0) > operation.asked_at_ms:
            self._breach("I13", after.id, "claimed before it was due")
        elif before.holder is not None:
            self._taken_over(before, operation.process)
        if operation is not None:
            self._pauses.claimed(operation.process, after.route, after.id)

    def _taken_over(self, before: Delivery, by: SimProcess) -> None:
        """Whatever the clocks say, nobody takes it from a living holder (I15)."""
        process = self._process_of(before.holder or "")
        if process is None or process.was_frozen or process.known_since_s is None:
            return
        if process.loop.now_s > process.known_since_s + NEW_FOR_S:
            text = f"{by.holder} took it from {process.holder}, which is alive"
            self._breach("I15", before.id, text)

    def _audited(self, delivery_id: str) -> set[str]:
        """The verbs whose audit is written in the same commit."""
        operation = self._disk.operation
        return {
            str((fact.value or {}).get("verb"))
            for write in (operation.writes if operation is not None else ())
            if write.delivery.id == delivery_id
            for fact in write.facts
            if fact.kind == "audit" and (fact.value or {}).get("actor")
        }

    def _moved(self, before: Delivery, after: Delivery) -> None:
        """Stages go forward, and only when the result of the one before is stored (I18)."""
        order = STAGES.get(after.route, ())
        places = [order.index(stage) for stage in (before.stage, after.stage) if stage in order]
        if len(places) == 2 and places[1] == places[0] + 1:
            content = self._disk.contents.get(after.id)
            if content is None or before.stage not in content.results:
                self._breach("I18", after.id, f"{before.stage} left no result")
        elif before.restart_at is None and not BACK_VERBS & self._audited(after.id):
            self._breach("I18", after.id, f"stage {before.stage} -> {after.stage}")

    def _tried(self, before: Delivery, after: Delivery) -> None:
        route_kind = ROUTE_KINDS[after.route]
        attempt = self._disk.attempts[after.id][after.attempts_ended].attempt
        if after.attempts_spent > route_kind.max_attempts:
            self._breach(
                "I16", after.id, f"{after.attempts_spent} attempts of {route_kind.max_attempts}"
            )
        if attempt.status == "interrupted":
            return  # its outcome is not known, and no answer says when to try again
        self._sends.wrote_outcome(before)
        if after.attempts_spent == before.attempts_spent or after.state != "pending":
            return
        budget = after.max_attempts or route_kind.max_attempts
        if after.attempts_spent >= budget and not after.maybe_sent:
            self._breach("I16", after.id, f"put back after {after.attempts_spent} of {budget}")
        by_route = after.failure is not None and after.failure.disposition == "route_fault"
        if by_route and route_kind.on_route_fault == "pause":
            self._breach("I19", after.id, "a fault of the route was counted")
        self._check_due(before, after, route_kind)

    def _check_due(self, before: Delivery, after: Delivery, route_kind: RouteKind) -> None:
        """Not before the ladder's step, nor before the provider's own wish (I13)."""
        told = self._sends.last_answer(before)
        if told is None or after.due_at_ms is None:
            return
        wall_ms, wish_s = told
        if route_kind.retry_after_cap_s is not None:
            wish_s = min(wish_s, route_kind.retry_after_cap_s)
        wait_s = route_kind.ladder_s[min(after.attempts_spent, len(route_kind.ladder_s)) - 1]
        earliest_ms = wall_ms + max(wait_s, min(wish_s, LONGEST_WAIT_S)) * 1000
        if after.expires_at_ms is not None:
            earliest_ms = min(earliest_ms, after.expires_at_ms)
        if after.due_at_ms < earliest_ms:
            early_s = (earliest_ms - after.due_at_ms) / 1000
            self._breach("I13", after.id, f"due {early_s:.3f} s too early")

    def _died(self, after: Delivery) -> None:
        self.deaths[after.id] += 1
        because, failure = after.failed_because, after.failure
        if "alert" not in after.notices_due:
            self._breach("I20", after.id, "dead, and no alert is due for it")
        if because is None:
            self._breach("I20", after.id, "dead for no reason")
        if after.maybe_sent and because != "uncertain":
            self._breach("I7", after.id, f"may have been sent, and is called {because}")
        if because == "poison":
            self._sends.is_poison(after.id)
        by_route = failure is not None and failure.disposition == "route_fault"
        if (
            by_route
            and because == "rejected"
            and ROUTE_KINDS[after.route].on_route_fault == "pause"
        ):
            self._breach("I19", after.id, "dead by a fault of the route")

    def _joined(self, after: Delivery) -> None:
        for child_id in self._disk.children.get(after.id, ()):
            child = self._disk.deliveries.get(child_id)
            if child is None:
                continue
            if not child.is_terminal or (child.state == "failed" and child.required):
                text = f"delivered while its part {child.id} is {child.state}"
                self._breach("I8", after.id, text)

    def _began_anew(self, before: Delivery, after: Delivery) -> None:
        """A replay appends one cycle and resets the budget, under the same id and key (I21)."""
        fine = (
            after.cycle == before.cycle + 1
            and len(after.failure_history) == len(before.failure_history) + 1
            and after.attempts_spent == 0
            and after.key == before.key
            and after.failure_history[-1].number == before.cycle
        )
        if not fine:
            self._breach("I21", after.id, f"cycle {before.cycle} -> {after.cycle} is no replay")
        self._sends.begins_anew(after.id)
        if "restart" in self._audited(after.id):
            self._sends.made_anew(after)
