"""The reckoning: the provider's ledger and the callers' answers against what the store says.

The ledger is the truth about what was sent, the answers are the truth about what was promised;
the engine's own word counts for nothing here.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

from msgspec import Struct

from homing.domain.delivery import Attempt, Delivery, Fact
from homing.ports import Query, Store
from homing.providers.stub import Entry, read_ledger
from tests.faults.stores import store_at

PAGE = 500
MAX_CRASHES = 5
SENDING = "send"  # other stages have no provider, and no ledger
# Ends that say "it was not sent".
NOT_SENT = frozenset({"rejected", "exhausted", "expired", "poison"})


class Record(Struct):
    """One delivery as it was found, beside what the provider really accepted of it."""

    delivery: Delivery
    attempts: list[Attempt]
    accepted: list[Entry]

    @property
    def in_doubt(self) -> list[Attempt]:
        return [attempt for attempt in self.attempts if attempt.window is not None]

    @property
    def duplicates(self) -> int:
        return max(len(self.accepted) - 1, 0)


class Books(Struct):
    records: dict[str, Record]
    keys: dict[str, str]
    workers: list[Fact]
    late: list[Fact]
    ledger: list[Entry]

    def of(self, key: str) -> Record:
        return self.records[self.keys[key]]

    @property
    def states(self) -> Counter[str]:
        return Counter(record.delivery.state for record in self.records.values())

    @property
    def duplicates(self) -> int:
        return sum(record.duplicates for record in self.records.values())


def read_books(store: Path | str, ledger: Path) -> Books:
    """`store` is the file, or the URL of a server."""
    return asyncio.run(_read(store, ledger))


async def _read(place: Path | str, ledger: Path) -> Books:
    entries = read_ledger(ledger)
    accepted: dict[str, list[Entry]] = {}
    for entry in entries:
        accepted.setdefault(entry.delivery_id, []).append(entry)
    store = store_at(place)
    await store.open()
    try:
        found = await _all(store)
        records = {
            one.id: Record(one, await store.attempts(one.id), accepted.get(one.id, []))
            for one in found
        }
        keys: dict[str, str] = {}
        for one in found:
            if one.key is not None and (known := await store.find(one.source, one.key)):
                keys[one.key] = known.delivery_id
        workers = await store.facts("worker")
        return Books(records, keys, workers, await store.facts("late_outcome"), entries)
    finally:
        await store.close()


async def _all(store: Store) -> list[Delivery]:
    page = await store.page(Query(), limit=PAGE)
    found = list(page.items)
    while page.next is not None:
        page = await store.page(Query(), page.next, limit=PAGE)
        found += page.items
    return found


def lost(books: Books, promised: Mapping[str, str]) -> list[str]:
    """Keys that a caller was given an id for, and that are not found by both (I1, I3)."""
    return [
        key
        for key, delivery_id in promised.items()
        if delivery_id not in books.records or books.keys.get(key) != delivery_id
    ]


def contradictions(books: Books) -> list[str]:
    """Everything the store says that the ledger gives the lie; empty is the proof."""
    unknown = {entry.delivery_id for entry in books.ledger} - set(books.records)
    found = [f"{delivery_id} was sent and never recorded" for delivery_id in unknown]
    for record in books.records.values():
        found += [f"{record.delivery.id} {word}" for word in _contradictions(record)]
    return found


def _contradictions(record: Record) -> Iterator[str]:
    one, times = record.delivery, len(record.accepted)
    if not one.is_terminal:
        yield f"is still {one.state} (I14)"
    if one.state == "delivered" and one.stage == SENDING and not times:
        yield "is delivered and was never accepted (I8)"
    if one.state == "failed" and one.failed_because is None:
        yield "failed without a reason"
    if times and (one.failed_because in NOT_SENT or one.state == "suppressed"):
        yield f"was accepted and is called {one.failed_because or one.state} (I7)"
    if times > 1 + len(record.in_doubt):
        yield f"was accepted {times} times with {len(record.in_doubt)} windows (I9)"
    if times > 1 and not one.maybe_duplicate:
        yield f"was accepted {times} times without a flag (I10)"
    if len({entry.sha256 for entry in record.accepted}) > 1:
        yield "was sent with other bytes (I17)"
    yield from _miscounts(record)


def _miscounts(record: Record) -> Iterator[str]:
    one = record.delivery
    counted = sum(attempt.counted for attempt in record.attempts)
    if one.attempts_spent != counted:
        yield f"says {one.attempts_spent} attempts, its ledger says {counted} (I16)"
    for attempt in record.attempts:
        if attempt.status == "interrupted" and attempt.counted and attempt.window is None:
            yield f"was charged for attempt {attempt.number}, broken off unsent (I16)"
    crashes = sum(attempt.status == "interrupted" for attempt in record.attempts)
    if one.failed_because == "poison" and crashes < MAX_CRASHES:
        yield f"is poison after {crashes} crashes (I16)"
