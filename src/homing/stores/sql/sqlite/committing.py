"""One group of requests, one transaction: what is answered together was committed together."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from msgspec import Struct

from homing.domain.errors import StoreCorrupt, StoreOutcomeUnknown, StoreUnavailable
from homing.stores.sql.sqlite import adding_new
from homing.stores.sql.sqlite.adding import add_all, all_added, plain_rows
from homing.stores.sql.sqlite.adding_in_parts import add_in_parts
from homing.stores.sql.sqlite.claiming import claim_all, renew_all
from homing.stores.sql.sqlite.faults import store_error
from homing.stores.sql.sqlite.high_water import HighWater
from homing.stores.sql.sqlite.purging import purge_all
from homing.stores.sql.sqlite.saving import save_all
from homing.stores.sql.sqlite.session import KeyRepeated, NotAsAssumed, Session

Work: TypeAlias = Callable[[Session, Sequence[Any]], Sequence[Any]]
# Concurrent requests have no order among them, so kinds are done together; claims come last
# because then they find what the others made due.
ORDER: tuple[Work, ...] = (add_in_parts, add_all, save_all, renew_all, purge_all, claim_all)

_TRY_AGAIN_S = 0.0003
_CLOSING_PATIENCE_S = 0.5
# Requests are often repeated in a burst: after one that was, so many commits look for keys first.
LOOK_FOR_KEYS = 256
# After these errors each request of the group would fail alone, too.
HOPELESS = (StoreUnavailable, StoreOutcomeUnknown, StoreCorrupt)


class Job(Struct, eq=False):
    """A request on its way to the writer, and where the answer goes."""

    work: Work
    request: Any
    size: int
    future: asyncio.Future[Any]
    answer: Any = None
    error: BaseException | None = None


class Committer:
    """One group, one transaction. A request that fails does not make the others fail."""

    def __init__(
        self,
        connection: sqlite3.Connection,
        path: Path,
        busy_timeout_s: float,
        high_water: HighWater,
        wake_others: Callable[[], None],
    ) -> None:
        """`wake_others` is called right after a commit that may have made something due."""
        connection.execute("pragma busy_timeout = 0")
        adding_new.make_ready(connection)
        self._connection = connection
        self._busy_timeout_s = busy_timeout_s
        self._path = path
        self._high_water = high_water
        self._wake_others = wake_others
        self._committing = False
        self._durable = True
        self._looks_for_keys = 0
        # The store is being closed: a lock of the file is no longer waited for at length.
        self.is_closing = False

    def commit(self, jobs: list[Job], *, exact: bool = False) -> bool:
        """Every job has its answer or its error afterwards; true if something may be due."""
        looks_for_keys = self._looks_for_keys > 0
        session = Session(self._connection, exact=exact, looks_for_keys=looks_for_keys)
        try:
            return self._transact(session, jobs)
        except Exception as error:
            fault = self._back_out(error)
        finally:
            session.close()
        if isinstance(fault, NotAsAssumed) and not exact:
            if isinstance(fault, KeyRepeated):
                self._looks_for_keys = LOOK_FOR_KEYS
            return self.commit(jobs, exact=True)
        if len(jobs) == 1:
            jobs[0].error = fault
            return False
        if isinstance(fault, HOPELESS):
            for job in jobs:
                job.error = type(fault)(*fault.args)
            return False
        # What the group has noted in its requests is no longer valid: each reads again.
        news = [self.commit([job], exact=True) for job in jobs]
        return any(news)

    def _transact(self, session: Session, jobs: list[Job]) -> bool:
        self._make_durable(durable=_must_last(jobs))
        works = {job.work for job in jobs}
        if works == {add_all} and self._added_by_one_statement(session, jobs):
            return session.news
        if works != {claim_all} or not self._claimed_without_waiting(session, jobs):
            self._wait_for_lock(lambda: self._connection.execute("begin immediate"))
            _run(session, jobs, works)
        if works == {claim_all} and not any(job.answer.due for job in jobs):
            self._connection.execute("rollback")  # nothing was written
            return False
        session.finish()
        self._looks_for_keys = max(0, self._looks_for_keys - 1)
        if self._durable:
            self._high_water.raise_within_commit()
        self._committing = True
        self._connection.execute("commit")
        self._committing = False
        if session.news:
            self._wake_others()
        if self._durable:
            self._high_water.committed()
        return session.news

    def _added_by_one_statement(self, session: Session, jobs: list[Job]) -> bool:
        """If all are plain new deliveries, and nothing else has to be written with them."""
        if sum([job.size for job in jobs]) > adding_new.WIDEST or self._high_water.is_due:
            return False
        requests = [job.request for job in jobs]
        rows = plain_rows(session, requests)
        if rows is None:
            return False
        # It begins and commits by itself.
        self._committing = True
        self._wait_for_lock(lambda: adding_new.add_new(session, rows))
        self._committing = False
        self._wake_others()
        self._high_water.has_commits = True
        _answer(jobs, all_added(requests))
        return True

    def _claimed_without_waiting(self, session: Session, jobs: list[Job]) -> bool:
        """False if another connection writes, or has written since this one began to read.

        The lock of the file is taken once there is something to claim: most claims find nothing,
        and those do not disturb others.
        """
        self._connection.execute("begin")
        try:
            _answer(jobs, claim_all(session, [job.request for job in jobs]))
        except sqlite3.OperationalError as error:
            if not _is_busy(error):
                raise
            if self._connection.in_transaction:
                self._connection.execute("rollback")
            return False
        return True

    def _make_durable(self, *, durable: bool) -> None:
        """Whether the next commit waits for the disk. One that does not is durable with the next
        one that does: all that was written to the log before it is then on the disk, too."""
        if durable != self._durable:
            self._connection.execute(f"pragma synchronous = {'full' if durable else 'normal'}")
            self._durable = durable

    def _wait_for_lock(self, begin: Callable[[], object]) -> None:
        """Repeat what takes the lock of the file in short steps, while another connection has it.

        SQLite itself sleeps longer each time, up to many times the length of a commit.
        """
        began_s = time.monotonic()
        while True:
            try:
                begin()
            except sqlite3.OperationalError as error:
                patience_s = self._busy_timeout_s
                if self.is_closing:
                    patience_s = min(patience_s, _CLOSING_PATIENCE_S)
                if not _is_busy(error) or time.monotonic() - began_s > patience_s:
                    raise
                time.sleep(_TRY_AGAIN_S)
            else:
                return

    def _back_out(self, error: Exception) -> Exception:
        committing, self._committing = self._committing, False
        fault = error
        if isinstance(error, sqlite3.Error):
            fault = store_error(error, self._path, committing=committing)
            fault.__cause__ = error
        try:
            if self._connection.in_transaction:
                self._connection.execute("rollback")
        except sqlite3.Error as second:
            return store_error(second, self._path)
        return fault


def _run(session: Session, jobs: list[Job], works: Collection[Work]) -> None:
    for work in ORDER:
        if work in works:
            group = [job for job in jobs if job.work is work]
            _answer(group, work(session, [job.request for job in group]))


def _answer(jobs: list[Job], answers: Sequence[Any]) -> None:
    for job, answer in zip(jobs, answers, strict=True):
        job.answer = answer


def _is_busy(error: sqlite3.OperationalError) -> bool:
    """Another connection writes, or has written since this one began to read."""
    return error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY


def _must_last(jobs: list[Job]) -> bool:
    """Whether a power cut must not undo them. A lease that was not renewed just ends earlier."""
    for job in jobs:
        if job.work is claim_all:
            if job.request.durable:
                return True
        elif job.work is not renew_all:
            return True
    return False
