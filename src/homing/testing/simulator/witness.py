"""The oracle's eye: looks on at every write and every send, and compares with what must hold.

These are the cheap checks, made at the moment itself: I5, I6, I11, I12, I13, I16 to I20. What
can be judged only at the end is judged by `reckoning`.
"""

from __future__ import annotations

from collections import Counter

from homing.domain.delivery import TERMINAL_STATES, Change, Delivery, Fact
from homing.ports import Accepted, Envelope
from homing.testing.simulator.breeds import BREEDS, Breed
from homing.testing.simulator.findings import Findings
from homing.testing.simulator.hosts import Life
from homing.testing.simulator.options import Options
from homing.testing.simulator.service import Answer
from homing.testing.simulator.storage import Operation, WatchedDisk
from homing.testing.virtualtime import VirtualTimeLoop

# By which audited verb a delivery may leave its end; every other way is forbidden (I6).
WAYS_OUT: dict[tuple[str, str], tuple[str, ...]] = {
    ("failed", "pending"): ("replay", "restart"),
    ("failed", "dismissed"): ("dismiss",),
    ("failed", "delivered"): ("confirm",),
    ("dismissed", "failed"): ("restore",),
    ("dismissed", "pending"): ("restore",),
}
STAGES: dict[str, tuple[str, ...]] = {"job": ("fetch", "llm", "notify")}
BACK_VERBS = ("restart", "amend")
POISON_LIMIT = 5
LONGEST_S = 366 * 86_400.0


class Witness:
    """Sees everything; believes only the ledgers."""

    def __init__(
        self, options: Options, disk: WatchedDisk, findings: Findings, loop: VirtualTimeLoop
    ) -> None:
        self._options = options
        self._disk = disk
        self._findings = findings
        self._loop = loop
        self._may_trust_leases = not options.has("store", "full", "freeze", "clock")
        self._bytes: dict[tuple[str, int], bytes] = {}
        self._answers: dict[str, tuple[str, int, Answer]] = {}
        self.commits_of: Counter[str] = Counter()
        self.starts_of: Counter[str] = Counter()
        self.kills_of: Counter[str] = Counter()
        self.first_start_ms: dict[str, int] = {}
        self.deaths: dict[str, list[int]] = {}
        self.births = 0
        # Since when a finished send is known to whom, until that is written down somewhere (P8).
        self.unwritten: dict[tuple[str, str], float] = {}
        self._late: dict[str, float] = {}
        self._claimed_at_s: dict[str, float] = {}
        disk.watch = self.wrote
        disk.watch_fact = self.noted

    def breach(self, invariant: str, subject: str, text: str) -> None:
        self._findings.breach(invariant, subject, text, self._loop.time())

    def wrote(self, before: Delivery | None, after: Delivery | None) -> None:
        """One record was written or removed."""
        if after is None:
            self._removed(before)
            return
        if before is None:
            self.births += 1
            return
        if after.version == before.version:
            if after.state != before.state or after.stage != before.stage:
                self.breach("I11", after.id, f"{before.state} -> {after.state}, same version")
            return
        if after.version != before.version + 1:
            self.breach("I11", after.id, f"version {before.version} -> {after.version}")
        if after.attempt_no > before.attempt_no and before.holder is not None:
            self.unwritten.pop((before.holder, after.id), None)
        if after.holder is not None and after.claims != before.claims:
            self._claimed_at_s[after.id] = self._loop.time()
        if before.state in TERMINAL_STATES and after.state != before.state:
            self._left_its_end(before, after)
        if after.stage != before.stage:
            self._changed_stage(before, after)
        if after.attempts > before.attempts:
            self._spent(before, after)
        if after.state == "failed" and before.state != "failed":
            self._died(before, after)
        elif after.state == "delivered" and after.fanned_out and before.state != "delivered":
            self._joined(after)
        elif after.cycle != before.cycle:
            self._began_anew(before, after)
        elif after.state == "in_flight" and before.state == "pending":
            self._claimed(before, after)

    def _claimed(self, before: Delivery, after: Delivery) -> None:
        operation = self._disk.operation
        if operation is None or operation.name != "claim":
            self.breach("I11", after.id, "in flight, and not by a claim")
        elif (before.due_at_ms or 0) > operation.asked_at_ms:
            self.breach("I13", after.id, "claimed before it was due")

    def noted(self, fact: Fact) -> None:
        """Of facts, only what a holder learnt too late is of interest."""
        if fact.kind != "late_outcome" or fact.value is None:
            return
        delivery_id = fact.key.partition("/")[0]
        self.unwritten.pop((str(fact.value.get("holder")), delivery_id), None)
        if fact.value.get("status") == "done":
            self._late.setdefault(delivery_id, self._loop.time())

    def _removed(self, before: Delivery | None) -> None:
        if before is None:
            return
        self.unwritten.pop((before.holder or "", before.id), None)
        fine = before.state in ("in_flight", "delivered") or "confirm" in self._audited(before.id)
        if BREEDS[before.route].keep_delivered or not fine:
            self.breach("I5", before.id, f"removed while {before.state}")

    def _left_its_end(self, before: Delivery, after: Delivery) -> None:
        verbs = WAYS_OUT.get((before.state, after.state), ())
        if not any(verb in self._audited(after.id) for verb in verbs):
            self.breach("I6", after.id, f"{before.state} -> {after.state} with no audited verb")

    def _audited(self, delivery_id: str) -> tuple[str, ...]:
        """The verbs whose audit is written in the same commit."""
        operation = self._disk.operation
        return tuple(
            str((fact.value or {}).get("verb"))
            for change in _changes(operation)
            if change.delivery.id == delivery_id
            for fact in change.facts
            if fact.kind == "audit" and (fact.value or {}).get("actor")
        )

    def _changed_stage(self, before: Delivery, after: Delivery) -> None:
        order = STAGES.get(after.route)
        forward = order is not None and order.index(after.stage) == order.index(before.stage) + 1
        if forward:
            content = self._disk.contents.get(after.id)
            if content is None or before.stage not in content.results:
                self.breach("I18", after.id, f"{before.stage} left no result")
        elif before.restart_at is None and not set(BACK_VERBS) & set(self._audited(after.id)):
            self.breach("I18", after.id, f"stage {before.stage} -> {after.stage}")

    def _spent(self, before: Delivery, after: Delivery) -> None:
        breed = BREEDS[after.route]
        if after.attempts > breed.max_attempts:
            self.breach("I16", after.id, f"{after.attempts} attempts of {breed.max_attempts}")
        failure = after.failure
        if after.state == "pending" and failure is not None:
            if failure.disposition == "route_fault" and breed.on_route_fault == "park":
                self.breach("I19", after.id, "a fault of the route was counted")
            self._check_due(before, after, breed)

    def _check_due(self, before: Delivery, after: Delivery, breed: Breed) -> None:
        """Not before the ladder's step, nor before the provider's own wish (I13)."""
        holder, wall_ms, answer = self._answers.pop(after.id, ("", 0, None))
        if holder != before.holder or answer is None or after.due_at_ms is None:
            return
        wait_s = breed.ladder_s[min(after.attempts, len(breed.ladder_s)) - 1]
        wish_s = getattr(answer, "retry_after_s", None) or 0.0
        if breed.retry_after_cap_s is not None:
            wish_s = min(wish_s, breed.retry_after_cap_s)
        earliest_ms = wall_ms + max(wait_s, min(wish_s, LONGEST_S)) * 1000
        if after.attempts and after.due_at_ms < earliest_ms:
            if after.expires_at_ms is None or after.due_at_ms < after.expires_at_ms:
                early_s = (earliest_ms - after.due_at_ms) / 1000
                self.breach("I13", after.id, f"due {early_s:.3f} s too early")

    def _died(self, before: Delivery, after: Delivery) -> None:
        if before.state == "dismissed":
            return
        breed = BREEDS[after.route]
        self.deaths.setdefault(after.id, []).append(after.version)
        if "alert" not in after.owed:
            self.breach("I20", after.id, "dead, and no alert is owed for it")
        if after.failed_because == "poison" and self.starts_of[after.id] < POISON_LIMIT:
            self.breach("I16", after.id, f"poison after {self.starts_of[after.id]} starts")
        if after.failed_because is None:
            self.breach("I20", after.id, "dead for no reason")
        if after.maybe_sent and after.failed_because != "uncertain":
            self.breach("I7", after.id, f"may have been sent, and is called {after.failed_because}")
        failure = after.failure
        by_route = failure is not None and failure.disposition == "route_fault"
        if by_route and breed.on_route_fault == "park" and after.failed_because == "rejected":
            self.breach("I19", after.id, "dead by a fault of the route")

    def _joined(self, after: Delivery) -> None:
        for child_id in self._disk.children.get(after.id, ()):
            child = self._disk.deliveries.get(child_id)
            if child is None:
                continue
            if not child.is_terminal or (child.state == "failed" and child.required):
                self.breach("I8", after.id, f"delivered while its part {child.id} is {child.state}")

    def _began_anew(self, before: Delivery, after: Delivery) -> None:
        """A replay appends one cycle and resets the budget, under the same id and key (I21)."""
        fine = (
            after.cycle == before.cycle + 1
            and len(after.failure_history) == len(before.failure_history) + 1
            and after.attempts == 0
            and after.key == before.key
            and after.failure_history[-1].number == before.cycle
        )
        if "restart" in self._audited(after.id):
            # All over again: what was rendered and frozen is made anew.
            self._bytes.pop((after.id, after.payload_no), None)
        if not fine:
            self.breach("I21", after.id, f"cycle {before.cycle} -> {after.cycle} is no replay")

    def starts(self, life: Life, delivery_id: str, stage: str | None = None) -> None:
        """A step begins: a handler is called, or a send is prepared."""
        now_ms = life.clock.now_ms()
        self.first_start_ms.setdefault(delivery_id, now_ms)
        self.starts_of[delivery_id] += 1
        stored = self._disk.deliveries.get(delivery_id)
        if stored is None or stored.holder != life.holder:
            return
        if stored.expires_at_ms is not None and now_ms >= stored.expires_at_ms:
            self.breach("I13", delivery_id, "tried after its time was over")
        if stage is not None and stored.stage != stage:
            self.breach("I18", delivery_id, f"{stage} runs while {stored.stage} is due")
        if self._may_trust_leases and (stored.due_at_ms or 0) < now_ms:
            self.breach("I12", delivery_id, "worked on after its lease had ended")

    def prepares(self, life: Life, envelope: Envelope) -> None:
        self.starts(life, envelope.delivery_id)

    def commits(self, life: Life, envelope: Envelope) -> None:
        """The byte that may send is about to go out."""
        delivery_id = envelope.delivery_id
        self.commits_of[delivery_id] += 1
        stored = self._disk.deliveries.get(delivery_id)
        if stored is None or stored.holder != life.holder or not stored.committing:
            state = "removed" if stored is None else f"{stored.state}, held by {stored.holder}"
            self.breach("I12", delivery_id, f"{life.holder} sends without its mark: it is {state}")
            return
        first = self._bytes.setdefault((delivery_id, stored.payload_no), envelope.data)
        if first != envelope.data:
            self.breach("I17", delivery_id, "other bytes than at the first attempt")
        known_s = self._late.get(delivery_id)
        if stored.maybe_sent and known_s is not None:
            if known_s < self._claimed_at_s.get(delivery_id, 0.0):
                self.breach("I10", delivery_id, "sent again, though it was known to be accepted")
        accepted = {r.address for r in stored.recipients if r.outcome in ("accepted", "refused")}
        if accepted.intersection(envelope.recipients):
            self.breach("I9", delivery_id, "sent again to a recipient who had an answer")

    def answered(self, life: Life, envelope: Envelope, answer: Answer) -> None:
        self._answers[envelope.delivery_id] = (life.holder, life.clock.now_ms(), answer)
        if isinstance(answer, Accepted):
            self.unwritten[life.holder, envelope.delivery_id] = self._loop.time()

    def is_zombie(self, life: Life, envelope: Envelope) -> bool:
        stored = self._disk.deliveries.get(envelope.delivery_id)
        return stored is None or stored.holder != life.holder

    def killed_by(self, delivery_id: str) -> None:
        self.kills_of[delivery_id] += 1
        if self.kills_of[delivery_id] > POISON_LIMIT:
            self.breach("I16", delivery_id, f"killed {self.kills_of[delivery_id]} workers")


def _changes(operation: Operation | None) -> tuple[Change, ...]:
    return () if operation is None else tuple(operation.changes)
