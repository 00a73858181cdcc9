"""Traps: a store and a provider that end or hold up their own process at a named crash point.

P0 before an accept is stored, P1 after it; P2 after a claim; P3 prepared; P4 marked, nothing
sent; P5 accepted, the answer not read; P6 read, the outcome not stored; P7 stored.
"""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

from homing.domain.delivery import Receipt
from homing.domain.failure import Failure
from homing.domain.writes import Write
from homing.ports import (
    Absent,
    Accepted,
    Answers,
    Batch,
    Envelope,
    Found,
)
from homing.providers.stub import StubProvider, StubSend, read_ledger
from homing.stores.jsonl import JsonlStore
from homing.stores.sql.postgres import PostgresStore
from homing.stores.sql.sqlite import SqliteStore

TRAPPED = "trapped"
LOOK_EVERY_S = 0.005


class Trap(Struct, frozen=True):
    """At the n-th time that the point is reached, the process gets this signal.

    With `to`, only what goes to that address counts; that is known from P3 to P5. SIGSTOP is left
    to whoever set the trap: the process says that it is trapped, and goes on when it is thawed.
    """

    point: str
    nth: int = 1
    signal: int = signal.SIGKILL
    to: str | None = None


class Traps:
    def __init__(self, traps: Sequence[Trap] = ()) -> None:
        self._traps = traps
        self._reached: Counter[Trap] = Counter()

    def reach(self, point: str, to: Sequence[str] = ()) -> None:
        for trap in self._traps:
            if trap.point == point and (trap.to is None or trap.to in to):
                self._reached[trap] += 1
                if self._reached[trap] == trap.nth:
                    _spring(trap)


def _spring(trap: Trap) -> None:
    if trap.signal != signal.SIGSTOP:
        os.kill(os.getpid(), trap.signal)
        return
    # It does not stop itself: another thread of it might be in the middle of a write, with the
    # file's lock in its hand.
    thawed: list[int] = []
    signal.signal(signal.SIGCONT, lambda number, _: thawed.append(number))
    say(TRAPPED)
    while not thawed:
        time.sleep(LOOK_EVERY_S)


def say(line: str) -> None:
    os.write(1, f"{line}\n".encode())


class _Trapped:
    """Nothing is claimed before `may_claim` is set. Comes before a store among the bases."""

    def set_traps(self, traps: Traps) -> None:
        self._at = traps.reach
        self.may_claim = asyncio.Event()

    async def commit(self, batch: Batch) -> Answers:
        if batch.claims:
            await self.may_claim.wait()
        writes = [write for put in batch.puts for write in put.writes]
        adds = any(write.over is None for write in writes)
        finished = any(_is_outcome(write) for write in writes)
        if adds:
            self._at("P0")
        if finished:
            self._at("P6")
        answers: Answers = await super().commit(batch)  # type: ignore[misc] # the store's
        if adds:
            self._at("P1")
        if any(answers.claims):
            self._at("P2")
        if finished:
            self._at("P7")
        return answers


class TrappedStore(_Trapped, SqliteStore):
    def __init__(self, path: Path, traps: Traps, busy_timeout_s: float) -> None:
        super().__init__(path, busy_timeout_s=busy_timeout_s)
        self.set_traps(traps)


class TrappedJsonl(_Trapped, JsonlStore):
    def __init__(self, path: Path, traps: Traps, busy_timeout_s: float) -> None:
        super().__init__(path, lock_within_s=busy_timeout_s)
        self.set_traps(traps)


class TrappedPostgres(_Trapped, PostgresStore):
    def __init__(self, url: str, traps: Traps) -> None:
        super().__init__(url)
        self.set_traps(traps)


def _is_outcome(write: Write) -> bool:
    return bool(write.attempts) and write.delivery.state != "in_flight"


class TrappedStub(StubProvider):
    def __init__(self, traps: Traps, ledger: Path, latency_s: float) -> None:
        super().__init__(ledger=ledger, latency_s=latency_s)
        self._at = traps.reach

    async def prepare(self, envelope: Envelope) -> StubSend | Failure:
        ready = await super().prepare(envelope)
        self._at("P3", envelope.recipients)
        return ready

    def leave(self, envelope: Envelope) -> None:
        self._at("P4", envelope.recipients)
        super().leave(envelope)

    def arrive(self, envelope: Envelope) -> Accepted | Failure:
        answer = super().arrive(envelope)
        self._at("P5", envelope.recipients)
        return answer


class LookingStub(TrappedStub):
    """One that can be asked: its ledger outlives it, as a real provider's would."""

    def __init__(self, traps: Traps, ledger: Path, latency_s: float) -> None:
        super().__init__(traps, ledger, latency_s)
        self._ledger_path = ledger

    async def lookup(self, token: str, notification_id: str | None = None) -> Found | Absent:
        for entry in read_ledger(self._ledger_path):
            if entry.token == token:
                return Found(Receipt(entry.notification_id, evidence="lookup"))
        return Absent()
