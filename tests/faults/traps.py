"""Traps: a store and a provider that send their own process a signal at a named crash point.

P0 before an accept is stored, P1 after it; P2 after a claim; P3 prepared; P4 marked, nothing
sent; P5 accepted, the answer not read; P6 read, the outcome not stored; P7 stored.
"""

from __future__ import annotations

import os
import signal
import sqlite3
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

from homing.domain.delivery import Change, Fact, New, Receipt
from homing.domain.failure import Failure
from homing.ports import Absent, Accepted, Added, Claim, Claimed, Envelope, Existing, Found, Ready
from homing.providers.stub import StubProvider, read_ledger
from homing.stores.sql.sqlite import SqliteStore


class Trap(Struct, frozen=True):
    """At the n-th time that the point is reached, the process gets this signal."""

    point: str
    nth: int = 1
    signal: int = signal.SIGKILL


class Traps:
    def __init__(self, traps: Sequence[Trap] = (), store: Path | None = None) -> None:
        self._store = store
        self._traps = {(trap.point, trap.nth): trap.signal for trap in traps}
        self._reached: Counter[str] = Counter()

    def reach(self, point: str) -> None:
        self._reached[point] += 1
        number = self._traps.get((point, self._reached[point]))
        if number == signal.SIGSTOP and self._store is not None:
            # Frozen in the middle of a write it would hold the file's lock: another fault.
            self._between_writes(self._store)
        if number is not None:
            os.kill(os.getpid(), number)

    def _between_writes(self, store: Path) -> None:
        connection = sqlite3.connect(store, timeout=30, isolation_level=None)
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("ROLLBACK")
        connection.close()


class TrappedStore(SqliteStore):
    def __init__(self, path: Path, traps: Traps, busy_timeout_s: float) -> None:
        super().__init__(path, busy_timeout_s=busy_timeout_s)
        self._at = traps.reach

    async def add(self, new: Sequence[New], facts: Sequence[Fact] = ()) -> list[Added | Existing]:
        self._at("P0")
        answers = await super().add(new, facts)
        self._at("P1")
        return answers

    async def claim(self, claim: Claim) -> list[Claimed]:
        claimed = await super().claim(claim)
        if claimed:
            self._at("P2")
        return claimed

    async def save(self, changes: Sequence[Change], facts: Sequence[Fact] = ()) -> list[bool]:
        finished = any(_is_outcome(change) for change in changes)
        if finished:
            self._at("P6")
        saved = await super().save(changes, facts)
        if finished:
            self._at("P7")
        return saved


def _is_outcome(change: Change) -> bool:
    return bool(change.ended) and change.delivery.state != "in_flight"


class TrappedStub(StubProvider):
    def __init__(self, traps: Traps, ledger: Path, latency_s: float) -> None:
        super().__init__(ledger=ledger, latency_s=latency_s)
        self._at = traps.reach

    async def prepare(self, envelope: Envelope) -> Ready | Failure:
        ready = await super().prepare(envelope)
        self._at("P3")
        return ready

    async def commit(self, envelope: Envelope) -> Accepted | Failure:
        self._at("P4")
        answer = await super().commit(envelope)
        self._at("P5")
        return answer


class LookingStub(TrappedStub):
    """One that can be asked: its ledger outlives it, as a real provider's would."""

    def __init__(self, traps: Traps, ledger: Path, latency_s: float) -> None:
        super().__init__(traps, ledger, latency_s)
        self._ledger_path = ledger

    async def lookup(self, token: str) -> Found | Absent:
        for entry in read_ledger(self._ledger_path):
            if entry.token == token:
                return Found(Receipt(entry.notification_id, evidence="lookup"))
        return Absent()
