"""Planted bugs: one change each to the real code, and the invariant that it breaks.

A simulator that has never caught a known bug proves nothing. Each of these is a mistake that
somebody could make; `old` must be found exactly once in the file, else the list is out of date.
"""

from __future__ import annotations

from typing import NamedTuple


class Planted(NamedTuple):
    """A bug, where it is planted, and where it is likely to be seen."""

    name: str
    breaks: str
    file: str
    old: str
    new: str
    faults: str = ""
    routes: str = ""
    seeds: int = 40
    deliveries: int = 120

    @property
    def words(self) -> tuple[str, ...]:
        """How the simulator is asked to look for it."""
        return self.words_until(self.seeds)

    def words_until(self, seeds: int) -> tuple[str, ...]:
        """The same, for the first few seeds alone."""
        words = [f"0-{seeds - 1}", "--deliveries", str(self.deliveries), "--jobs", "1", "--first"]
        if self.faults:
            words += ["--faults", self.faults]
        if self.routes:
            words += ["--routes", self.routes]
        return tuple(words)


PLANTED: tuple[Planted, ...] = (
    Planted(
        "no mark before the send",
        "I12",
        "engine/steps.py",
        "marked = await work.mark_committing(to_store)",
        "marked = True",
    ),
    Planted(
        "the mark is written after the send",
        "I12",
        "engine/steps.py",
        "marked = await work.mark_committing(to_store)",
        "marked = bool(await ready.commit()) and await work.mark_committing(to_store)",
    ),
    Planted(
        "the frozen bytes are not stored",
        "I17",
        "engine/steps.py",
        "to_store = {FROZEN: data} if frozen is None else {}",
        "to_store = {}",
    ),
    Planted(
        "a lost claim is taken for kept",
        "I12",
        "engine/settling.py",
        "settlement.done.set_result(stored)",
        "settlement.done.set_result(True)",
        faults="freeze",
        routes="post,held",
    ),
    Planted(
        "the outcome of a finished send is not kept for the journal",
        "P8",
        "engine/attempt.py",
        "must_keep=held.delivery.committing,",
        "must_keep=False,",
        faults="full",
        routes="post,held",
    ),
    Planted(
        "doubt is ignored",
        "I10",
        "engine/attempt.py",
        "if held.delivery.maybe_sent:",
        "if False:",
        faults="doubt,crash",
        routes="post",
    ),
    Planted(
        "what an earlier holder learnt too late is not read",
        "I10",
        "engine/attempt.py",
        'if value.get("status") == "done" and',
        'if value.get("status") == "never" and',
        faults="freeze,full",
        routes="strict",
        seeds=60,
    ),
    Planted(
        "no evidence is taken for evidence of absence",
        "I9",
        "engine/attempt.py",
        "if isinstance(found, Absent) and not partly:",
        "if isinstance(found, Absent | Unknown) and not partly:",
        faults="crash,doubt",
        routes="asked",
    ),
    Planted(
        "the token is trusted beyond its window",
        "I9",
        "engine/attempt.py",
        "window_ms = route.provider.token_window_s * 500",
        "window_ms = route.provider.token_window_s * 500_000",
        faults="crash,freeze",
        routes="folded",
    ),
    Planted(
        "expired deliveries are tried",
        "I13",
        "engine/attempt.py",
        "if delivery.expires_at_ms is not None and now_ms >= delivery.expires_at_ms:",
        "if delivery.expires_at_ms is not None and now_ms < 0:",
    ),
    Planted(
        "crashes are not looked at",
        "I16",
        "domain/transitions/moves.py",
        "if delivery.crashes >= plan.max_crashes:",
        "if delivery.crashes >= 1000:",
        faults="crash",
        routes="event",
    ),
    Planted(
        "failed parts do not fail the whole",
        "I8",
        "engine/attempt.py",
        'if state in ("failed", "dismissed") and required == "true":',
        'if state in ("failed", "dismissed") and required == "false":',
        faults="handler,answers",
        routes="event,digest",
    ),
    Planted(
        "the journal is not read back",
        "P8",
        "engine/housekeeping.py",
        "entries = await self._journal.entries()",
        "entries = (await self._journal.entries())[:0]",
        faults="full,crash",
        routes="post,held",
    ),
    Planted(
        "what the journal kept too late is forgotten",
        "P8",
        "engine/housekeeping.py",
        "for change in lost:",
        "for change in lost[:0]:",
        faults="full",
        routes="post,held",
    ),
    Planted(
        "notices are ticked off and not given",
        "I20",
        "engine/housekeeping.py",
        "await notifier.notify(notice, delivery, attempts)",
        "notifier is not None",
    ),
    Planted(
        "no alert is owed for a dead letter",
        "I20",
        "domain/transitions/moves.py",
        "owed=_owing(delivery, notices),",
        "owed=delivery.owed,",
    ),
    Planted(
        "dead, although it may have been sent",
        "I7",
        "domain/transitions/moves.py",
        'because = "uncertain" if delivery.maybe_sent else because',
        "because = because or 'uncertain'",
        faults="doubt",
        routes="post",
    ),
    Planted(
        "failed attempts cost nothing",
        "I16",
        "domain/transitions/outcomes.py",
        "        attempts=delivery.attempts + int(counts),\n        crashes=0,",
        "        attempts=delivery.attempts,\n        crashes=0,",
        faults="answers",
        routes="post,strict",
    ),
    Planted(
        "Retry-After is not honoured",
        "I13",
        "domain/policy.py",
        "return max(delay_s, wish_s)",
        "return delay_s or wish_s",
    ),
    Planted(
        "jitter is applied after Retry-After",
        "I13",
        "domain/policy.py",
        "delay_s = self.retry_after.apply(own_s, failure)",
        "delay_s = self.retry_after.apply(own_s, failure) * roll",
    ),
    Planted(
        "leases are not renewed",
        "I12",
        "engine/worker.py",
        "if held.lease_end_s - now_s < self.route.lease_s * 2 / 3",
        "if held.lease_end_s - now_s < -1e9",
        faults="deploy",
        routes="post",
    ),
    Planted(
        "the living are not spared when the clock jumps",
        "I15",
        "engine/worker.py",
        "spare=self._liveness.alive | {self.holder},",
        "spare=frozenset({self.holder}),",
        faults="clock",
        routes="post,held",
    ),
    Planted(
        "what is given back counts as a crash",
        "I15",
        "domain/transitions/moves.py",
        "        state=state,\n        holder=None,\n        claims=0,",
        "        state=state,\n        holder=None,\n        claims=delivery.claims,",
    ),
    Planted(
        "a part that ends does not tell the whole",
        "I14",
        "domain/transitions/moves.py",
        "return replace(change, child_delta=-1)",
        "return replace(change, child_delta=0)",
    ),
    Planted(
        "a waiting parent never becomes due",
        "I14",
        "stores/memory/writing.py",
        "due_at_ms = now_ms if open_children == 0 else None",
        "due_at_ms = None",
    ),
    Planted(
        "a replay keeps the spent budget",
        "I21",
        "domain/transitions/repairing.py",
        "        cycle=delivery.cycle + 1,\n        attempts=0,",
        "        cycle=delivery.cycle + 1,\n        attempts=delivery.attempts,",
        faults="operator,answers",
        routes="post,strict",
    ),
    Planted(
        "a fault of the route is a failure of the message",
        "I19",
        "domain/transitions/outcomes.py",
        'if plan.on_route_fault == "park":',
        'if plan.on_route_fault == "never":',
    ),
    Planted(
        "whoever has it gets it again",
        "I9",
        "domain/delivery.py",
        'if r.outcome in ("open", "maybe")])',
        'if r.outcome != "refused"])',
        faults="answers",
        routes="post",
    ),
    Planted(
        "refused recipients are called accepted",
        "I8",
        "domain/recipients.py",
        'if recipient.outcome in ("open", "maybe") and refusal is None:',
        'if recipient.outcome in ("open", "maybe"):',
        faults="answers",
        routes="post",
    ),
    Planted(
        "refused, although it may have it",
        "I7",
        "domain/recipients.py",
        'refused_for_good = refusal.permanent and recipient.outcome == "open"',
        "refused_for_good = refusal.permanent",
        faults="answers,doubt",
        routes="post",
    ),
    Planted(
        "a crash after the mark leaves no doubt",
        "I10",
        "domain/transitions/claiming.py",
        "maybe_sent=delivery.committing,",
        "maybe_sent=False,",
        faults="crash",
        routes="post",
    ),
    Planted(
        "a second send is not flagged",
        "I10",
        "domain/transitions/outcomes.py",
        "return replace(delivery, maybe_duplicate=True, doubt_waived=True)",
        "return replace(delivery, doubt_waived=True)",
    ),
    Planted(
        "verbs do not look at the state",
        "I6",
        "domain/transitions/declaring.py",
        "if delivery.state not in sources:",
        "if delivery.state not in sources and not sources:",
        faults="operator,answers",
        routes="post",
    ),
    Planted(
        "a verb leaves no audit",
        "I6",
        "engine/desk.py",
        "facts=(*change.facts, audit)",
        "facts=change.facts",
    ),
    Planted(
        "another request under the same key is let in",
        "I3",
        "engine/admission.py",
        'if _differs(new, answer) and route.on_mismatch == "conflict":',
        'if _differs(new, answer) and route.on_mismatch == "never":',
    ),
    Planted(
        "keys are not stored",
        "I1",
        "engine/admission.py",
        "keys=_keys(route, delivery))",
        "keys=())",
    ),
    Planted(
        "the priority is dropped",
        "I1",
        "engine/admission.py",
        "priority=request.priority,",
        "priority=DEFAULT_PRIORITY,",
    ),
    Planted(
        "not_before is dropped",
        "I13",
        "engine/admission.py",
        "due_at_ms=max(request.not_before_ms or now_ms, now_ms),",
        "due_at_ms=now_ms,",
    ),
    Planted(
        "the dead are held for alive",
        "I14",
        "engine/liveness.py",
        'return now_s < float(value.get("steady_s") or 0.0) + self._patience_s',
        'return now_s > float(value.get("steady_s") or 0.0) - self._patience_s',
        faults="crash",
        routes="post",
    ),
    Planted(
        "a parked route stays parked",
        "I14",
        "engine/worker.py",
        "            await self._parking.unpark(self.route.name)\n",
        "            pass\n",
        faults="outage",
        routes="post",
    ),
    Planted(
        "the result of a stage is dropped",
        "I18",
        "domain/transitions/outcomes.py",
        "return Change(after, ended=ended, results=result_of_stage(delivery, result))",
        "return Change(after, ended=ended)",
        routes="job",
    ),
    Planted(
        "the store does not compare versions",
        "I11",
        "stores/memory/writing.py",
        "if stored is None or stored.version != delivery.version:",
        "if stored is None:",
        faults="freeze",
        routes="post,held",
    ),
    Planted(
        "a claim does not raise the version",
        "I11",
        "domain/transitions/claiming.py",
        "            version=delivery.version + 1,\n        )\n    )",
        "            version=delivery.version,\n        )\n    )",
    ),
    Planted(
        "a graceful stop gives nothing back",
        "I15",
        "engine/worker.py",
        "        self._attempts.settler.put(settlement)",
        "        del settlement",
        faults="deploy",
        routes="post",
    ),
    Planted(
        "one's own claims are not spared when the clock jumps",
        "I15",
        "engine/worker.py",
        "spare=self._liveness.alive | {self.holder},",
        "spare=self._liveness.alive,",
        faults="clock",
        routes="post,held",
    ),
    Planted(
        "what only waited in line counts as a crash",
        "I16",
        "domain/transitions/claiming.py",
        "crashes=delivery.crashes + int(delivery.begun or delivery.committing),",
        "crashes=delivery.crashes + lost_claims,",
        faults="crash",
        routes="event",
    ),
    Planted(
        "claims whose answer was lost are never looked for",
        "I14",
        "engine/housekeeping.py",
        "if self._unknown.get(delivery.id) == delivery.version",
        "if self._unknown.get(delivery.id) == -1",
        faults="store,clock",
        routes="post,held",
    ),
    Planted(
        "a late click replays the next cycle",
        "I21",
        "engine/desk.py",
        "if cycle is not None and delivery.cycle != cycle:",
        "if cycle is not None and delivery.cycle < cycle:",
        faults="operator,answers,freeze",
        routes="strict",
    ),
)
