"""The queue over the real SQLite store, beside the reference store: both must answer the same.

Every request goes to both, and each difference breaks I25 (store equivalence). The engine gets
SQLite's answers; the checks look at the reference's disk. The threads of the SQLite store decide
nothing: the simulated loop stands still until a request is answered, so requests are executed
one by one, in the order in which they were asked.
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
import threading
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any, TypeVar

from homing.domain.delivery import Attempt, Content, Delivery, Fact, Key
from homing.ports import (
    Answers,
    Batch,
    Cursor,
    GroupBy,
    Page,
    Query,
    Store,
)
from homing.stores.sql.sqlite import SqliteStore
from tests.simulation.simulator.differences import first_difference
from tests.simulation.simulator.findings import Findings
from tests.simulation.simulator.watched_disk import WatchedDisk, WatchedStore

T = TypeVar("T")

# In memory where the system offers it: a simulated run has no power cut, and syncs take long.
MEMORY_FOLDER = Path("/dev/shm")
PAGE = 500


class BlockingLoop:
    """A real event loop in a thread of its own; whoever asks stands still until the answer."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


class SqliteLane:
    """One database file, opened anew by every process."""

    def __init__(self, disk: WatchedDisk, findings: Findings) -> None:
        self._disk = disk
        self._findings = findings
        self._loop = BlockingLoop()
        within = str(MEMORY_FOLDER) if MEMORY_FOLDER.is_dir() else None
        self._folder = Path(tempfile.mkdtemp(prefix="homing-simulation-", dir=within))
        self._open: dict[str, SqliteStore] = {}

    def store_for(self, holder: str) -> Store:
        store = SqliteStore(self._folder / "homing.db")
        self._loop.run(store.open())
        self._open[holder] = store
        return ComparedStore(WatchedStore(self._disk), store, self._loop, self._findings)

    def ended(self, holder: str) -> None:
        """The process has ended: as the operating system does, close its files."""
        store = self._open.pop(holder, None)
        if store is not None:
            self._loop.run(store.close())

    def check_all(self) -> None:
        """Record by record: what the answers did not show."""
        store = self._store_of_world()
        left = dict(self._disk.deliveries)
        for delivery in self._loop.run(_everything(store)):
            expected = left.pop(delivery.id, None)
            if delivery != expected:
                self._differs("record", delivery.id, delivery, expected)
        for delivery_id in left:
            self._findings.breach("I25", delivery_id, "not in SQLite at all")
        for (source, name), key in self._disk.keys.items():
            found = self._loop.run(store.find(source, name))
            if found != key:
                self._differs("key", name, found, key)

    def close(self) -> None:
        for holder in list(self._open):
            self.ended(holder)
        self._loop.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _store_of_world(self) -> SqliteStore:
        self.store_for("world")
        return self._open["world"]

    def _differs(self, what: str, subject: str, found: object, expected: object) -> None:
        _, text = first_difference(found, expected)
        self._findings.breach("I25", subject, f"{what} in SQLite: {text}")


async def _everything(store: Store) -> list[Delivery]:
    page = await store.page(Query(), limit=PAGE)
    found = list(page.items)
    while page.next is not None:
        page = await store.page(Query(), page.next, limit=PAGE)
        found += page.items
    return found


class ComparedStore(Store):
    """The SQLite store of one process, with the reference beside it."""

    def __init__(
        self, reference: WatchedStore, real: Store, loop: BlockingLoop, findings: Findings
    ) -> None:
        self._reference = reference
        self._real = real
        self._loop = loop
        self._breach = findings.breach

    async def open(self) -> None:
        """The queue has opened it."""

    async def close(self) -> None:
        """The queue closes it."""

    async def commit(self, batch: Batch) -> Answers:
        async def answers_of(store: Store) -> Answers:
            answers = await store.commit(batch)
            # As lists: an empty part may be a tuple.
            return Answers(
                [list(each) for each in answers.puts],
                [list(each) for each in answers.renewals],
                list(answers.purges),
                list(answers.claims),
            )

        return await self._both(answers_of, "commit")

    async def get(self, delivery_id: str) -> Delivery | None:
        return await self._both(lambda store: store.get(delivery_id), "get")

    async def get_many(self, delivery_ids: Sequence[str]) -> list[Delivery | None]:
        return await self._both(lambda store: store.get_many(delivery_ids), "get_many")

    async def content(self, delivery_id: str) -> Content | None:
        return await self._both(lambda store: store.content(delivery_id), "content")

    async def find(self, source: str, key: str) -> Key | None:
        return await self._both(lambda store: store.find(source, key), "find")

    async def page(self, query: Query, cursor: Cursor | None = None, limit: int = 50) -> Page:
        return await self._both(lambda store: store.page(query, cursor, limit), "page")

    async def count(self, query: Query, by: tuple[GroupBy, ...] = ()) -> dict[tuple[str, ...], int]:
        return await self._both(lambda store: store.count(query, by), "count")

    async def attempts(self, delivery_id: str) -> list[Attempt]:
        return await self._both(lambda store: store.attempts(delivery_id), "attempts")

    async def attempts_of_many(self, delivery_ids: Sequence[str]) -> list[list[Attempt]]:
        return await self._both(lambda store: store.attempts_of_many(delivery_ids), "attempts")

    async def facts(
        self, kind: str, prefix: str = "", limit: int = 1000, **more: Any
    ) -> list[Fact]:
        return await self._both(lambda store: store.facts(kind, prefix, limit, **more), "facts")

    async def next_due_ms(self, queues: Sequence[str]) -> int | None:
        return await self._both(lambda store: store.next_due_ms(queues), "next_due_ms")

    async def wait(self, timeout_s: float) -> None:
        """In virtual time, so by the reference: when a wait ends decides nothing but delays."""
        await self._reference.wait(timeout_s)

    async def _both(self, ask: Callable[[Store], Coroutine[Any, Any, T]], name: str) -> T:
        real = self._loop.run(ask(self._real))
        expected = await ask(self._reference)
        if real != expected:
            subject, text = first_difference(real, expected)
            self._breach("I25", subject or name, f"{name} in SQLite: {text}")
        return real
