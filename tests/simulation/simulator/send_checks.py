"""The oracle's eye on the work: when a step begins, what goes out, what came back.

It knows what was promised (marks, leases, frozen bytes, due times) only from the disk, and what
really happened from the services. I9, I10, I12, I13, I16, I17 and I18 are checked here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Literal, TypeAlias, get_args

from homing.domain.delivery import Delivery, Fact
from homing.domain.failure import Failure
from homing.ports import Accepted, Envelope
from tests.simulation.simulator.findings import Findings
from tests.simulation.simulator.hosts import SimProcess
from tests.simulation.simulator.options import Options
from tests.simulation.simulator.pauses import Pauses
from tests.simulation.simulator.route_kinds import LEASE_S, TIMEOUT_S
from tests.simulation.simulator.watched_disk import WatchedDisk
from tests.simulation.virtualtime import VirtualTimeLoop

# When it hurts most: a step begins, marks have just been stored, a send has just gone out.
Moment: TypeAlias = Literal["start", "mark", "commit"]
MOMENTS: tuple[Moment, ...] = get_args(Moment)

POISON_LIMIT = 5
# The first death proves nothing, it may have been a neighbour's; nor the first after a release.
MOST_KILLS = POISON_LIMIT + 3
# Some may have been killed by something else right before it began.
FEWEST_STARTS = 3
# So many accepted sends of one process may await their save: what one kill can send twice.
MOST_UNSAVED = 64


class SendChecks:
    """Sees every step begin, every send and every answer."""

    def __init__(
        self,
        options: Options,
        disk: WatchedDisk,
        findings: Findings,
        loop: VirtualTimeLoop,
        pauses: Pauses,
    ) -> None:
        self._pauses = pauses
        self._disk = disk
        self._breach = findings.breach
        self._loop = loop
        self._may_trust_leases = not options.has("store", "full")
        self._bytes: dict[tuple[str, int], bytes] = {}
        self._answers: dict[str, tuple[str, int, float]] = {}
        # Since when it is known, too late, that a delivery was accepted; and when it was claimed.
        self._late: dict[str, float] = {}
        self._claimed_at_s: dict[str, float] = {}
        self._leased_at_s: dict[str, float] = {}
        # Which process knows of which accepted send that is not yet written down anywhere (P8).
        self.unwritten: dict[tuple[str, str], None] = {}
        # Accepted sends of each process whose outcome no save has carried yet.
        self._unsaved: dict[str, set[str]] = {}
        self.commits_of: Counter[str] = Counter()
        self.starts_of: Counter[str] = Counter()
        self.kills_of: Counter[str] = Counter()
        self.first_start_ms: dict[str, int] = {}
        self.on_moment: Callable[[Moment, SimProcess], None] = lambda _moment, _process: None
        disk.watch_facts.append(self.noted)

    def starts(self, process: SimProcess, delivery_id: str, stage: str | None = None) -> None:
        """A step begins: a handler is called, or a send is prepared."""
        self.on_moment("start", process)
        now_ms = process.clock.now_ms()
        self.first_start_ms.setdefault(delivery_id, now_ms)
        self.starts_of[delivery_id] += 1
        self._answers.pop(delivery_id, None)
        stored = self._disk.deliveries.get(delivery_id)
        if stored is None or stored.holder != process.holder:
            return
        if stored.expires_at_ms is not None and now_ms >= stored.expires_at_ms:
            self._breach("I13", delivery_id, "tried after its time was over")
        # A thawed process may still try what it held before, and find out when it writes.
        if stage is not None and stored.stage != stage and not process.was_frozen:
            self._breach("I18", delivery_id, f"{stage} runs while {stored.stage} is due")
        lease_end_s = self._leased_at_s.get(delivery_id, self._loop.now_s) + LEASE_S
        trusted = self._may_trust_leases and not process.was_frozen
        if trusted and self._loop.now_s > lease_end_s:
            self._breach("I12", delivery_id, "worked on after its lease had ended")

    def commits(self, process: SimProcess, envelope: Envelope) -> None:
        """The byte that may send is about to go out."""
        delivery_id = envelope.delivery_id
        self.commits_of[delivery_id] += 1
        self.on_moment("commit", process)
        stored = self._disk.deliveries.get(delivery_id)
        if stored is None or stored.holder != process.holder or not stored.committing:
            state = "removed" if stored is None else f"{stored.state}, held by {stored.holder}"
            self._breach(
                "I12", delivery_id, f"{process.holder} sends without its mark: it is {state}"
            )
            return
        self._pauses.sent(process, stored.route, delivery_id)
        leased_at_s = self._leased_at_s.get(delivery_id, self._loop.now_s)
        spare_s = leased_at_s + LEASE_S - TIMEOUT_S - self._loop.now_s
        if spare_s <= 0.0:
            self._breach("I12", delivery_id, f"its lease ends {-spare_s:.3f} s before its send")
        first = self._bytes.setdefault((delivery_id, stored.payload_no), envelope.data)
        if first != envelope.data:
            self._breach("I17", delivery_id, "other bytes than at the first attempt")
        known_s = self._late.get(delivery_id, float("inf"))
        if stored.maybe_sent and known_s < self._claimed_at_s.get(delivery_id, 0.0):
            self._breach("I10", delivery_id, "sent again, though it was known to be accepted")
        answered = {r.address for r in stored.recipients if r.outcome in ("accepted", "refused")}
        if answered.intersection(envelope.recipients):
            self._breach("I9", delivery_id, "sent again to a recipient who had an answer")

    def answered(self, process: SimProcess, envelope: Envelope, answer: Accepted | Failure) -> None:
        """The answer is with the process."""
        wish_s = answer.retry_after_s if isinstance(answer, Failure) else None
        wall_ms = process.clock.now_ms()
        self._answers[envelope.delivery_id] = (process.holder, wall_ms, wish_s or 0.0)
        if isinstance(answer, Accepted):
            self.unwritten[process.holder, envelope.delivery_id] = None
            unsaved = self._unsaved.setdefault(process.holder, set())
            unsaved.add(envelope.delivery_id)
            if len(unsaved) > MOST_UNSAVED:
                text = f"{process.holder} has {len(unsaved)} accepted sends that are not saved"
                self._breach("I9", envelope.delivery_id, text)

    def save_was_executed(self, holder: str, delivery_id: str) -> None:
        """The store was handed its outcome, or the journal was; kept or not."""
        self._unsaved.get(holder, set()).discard(delivery_id)

    def marked(self, process: SimProcess) -> None:
        """Marks are stored, and the process has not heard of it yet."""
        self.on_moment("mark", process)

    def is_zombie(self, process: SimProcess, envelope: Envelope) -> bool:
        stored = self._disk.deliveries.get(envelope.delivery_id)
        return stored is None or stored.holder != process.holder

    def last_answer(self, before: Delivery) -> tuple[int, float] | None:
        """When (by its own wall) the holder was last answered, and how long it was to wait."""
        holder, wall_ms, wish_s = self._answers.pop(before.id, ("", 0, 0.0))
        return (wall_ms, wish_s) if holder == before.holder else None

    def claimed(self, delivery_id: str) -> None:
        self._claimed_at_s[delivery_id] = self._leased_at_s[delivery_id] = self._loop.now_s

    def leased(self, delivery_id: str) -> None:
        """Its lease is longer now, whatever the wall clocks say."""
        self._leased_at_s[delivery_id] = self._loop.now_s

    def wrote_outcome(self, before: Delivery) -> None:
        self.unwritten.pop((before.holder or "", before.id), None)

    def noted(self, fact: Fact) -> None:
        """Of facts, only what a holder learnt too late is of interest."""
        if fact.kind != "late_outcome" or fact.value is None:
            return
        delivery_id = fact.key.partition("/")[0]
        self.unwritten.pop((str(fact.value.get("holder")), delivery_id), None)
        if fact.value.get("status") == "done":
            self._late.setdefault(delivery_id, self._loop.time())

    def begins_anew(self, delivery_id: str) -> None:
        """An operator gave it a new budget, of processes as well."""
        self.kills_of.pop(delivery_id, None)

    def made_anew(self, delivery: Delivery) -> None:
        """All over again: what was rendered and frozen is made anew, too."""
        self._bytes.pop((delivery.id, delivery.payload_no), None)

    def killed_by(self, delivery_id: str) -> None:
        self.kills_of[delivery_id] += 1
        if self.kills_of[delivery_id] > MOST_KILLS:
            self._breach("I16", delivery_id, f"killed {self.kills_of[delivery_id]} workers")

    def is_poison(self, delivery_id: str) -> None:
        """It must have been at work when its workers died, not only have waited for its turn."""
        if self.starts_of[delivery_id] < FEWEST_STARTS:
            times = self.starts_of[delivery_id]
            self._breach("I16", delivery_id, f"called poison after {times} starts")
