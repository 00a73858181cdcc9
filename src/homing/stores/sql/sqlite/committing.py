"""One batch, one transaction."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from homing.ports import Batch, Claim
from homing.stores.sql.layouts import LayoutTables
from homing.stores.sql.sqlite.claiming import Held, claim_all, renew_all
from homing.stores.sql.sqlite.executing import Steps, execute
from homing.stores.sql.sqlite.faults import store_error
from homing.stores.sql.sqlite.high_water import HighWater
from homing.stores.sql.sqlite.layout_rows import show, show_ids
from homing.stores.sql.sqlite.looking import NOTHING, Assumed, look
from homing.stores.sql.sqlite.purging import purge_all
from homing.stores.sql.sqlite.session import KeyRepeated, NotAsAssumed, Session

_TRY_AGAIN_S = 0.0003
_CLOSING_PATIENCE_S = 0.5
# Requests are often repeated in a burst: after one that was, so many commits look for keys first.
LOOK_FOR_KEYS = 256


class Done(Struct):
    """What was executed. `steps` is None if the batch puts nothing."""

    steps: Steps | None = None
    renewals: Sequence[Sequence[bool]] = ()
    purges: Sequence[int] = ()
    claims: Sequence[Held] = ()


class Job(Struct, eq=False):
    """A batch on its way to the writer, and where the answer goes."""

    batch: Batch
    assumed: Assumed
    future: asyncio.Future[Any]
    layouts: LayoutTables | None = None
    answer: Done | None = None
    error: BaseException | None = None


class Committer:
    """Commits one batch after the other, on one connection."""

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

    @property
    def looks_for_keys(self) -> bool:
        """Whether to read which keys are stored, instead of assuming that new ones are not."""
        return self._looks_for_keys > 0

    def commit(self, job: Job) -> bool:
        """The job has its answer or its error afterwards. Returns whether something may be due."""
        try:
            return self._commit(job, job.assumed)
        except KeyRepeated:
            self._looks_for_keys = LOOK_FOR_KEYS
        except NotAsAssumed:
            pass
        except Exception as error:
            job.error = error
            return False
        try:
            return self._commit(job, NOTHING)
        except Exception as error:
            job.error = error
            return False

    def _commit(self, job: Job, assumed: Assumed) -> bool:
        session = Session(self._connection)
        try:
            return self._transact(session, job, assumed)
        except Exception as error:
            fault = self._back_out(error)
        finally:
            session.close()
        raise fault

    def _transact(self, session: Session, job: Job, assumed: Assumed) -> bool:
        batch = job.batch
        self._make_durable(durable=_must_last(batch))
        has_only_claims = not (batch.puts or batch.renewals or batch.purges)
        claims = self._claim_without_lock(session, batch.claims) if has_only_claims else None
        if claims is not None:
            job.answer = Done(claims=claims)
        else:
            self._wait_for_lock(lambda: self._connection.execute("begin immediate"))
            job.answer = _execute(session, batch, assumed)
        if has_only_claims and not any(held.due for held in job.answer.claims):
            self._connection.execute("rollback")  # nothing was written
            return False
        if job.layouts:
            _show(session, job.layouts, batch, job.answer)
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

    def _claim_without_lock(
        self, session: Session, claims: Sequence[Claim]
    ) -> Sequence[Held] | None:
        """None if another connection writes, or has written since this one began to read.

        The lock of the file is taken once there is something to claim: most claims find nothing,
        and those do not disturb others.
        """
        self._connection.execute("begin")
        try:
            return claim_all(session, claims)
        except sqlite3.OperationalError as error:
            if not _is_busy(error):
                raise
            if self._connection.in_transaction:
                self._connection.execute("rollback")
            return None

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


def _execute(session: Session, batch: Batch, assumed: Assumed) -> Done:
    steps = None
    if batch.puts:
        steps = assumed.steps or look(session, batch.puts, assumed)
        execute(session, steps)
    renewals = renew_all(session, batch.renewals)
    purges = purge_all(session, batch.purges)
    return Done(steps, renewals, purges, claim_all(session, batch.claims))


def _show(session: Session, layouts: LayoutTables, batch: Batch, done: Done) -> None:
    """The rows of what the batch has changed, in the tables of record layouts."""
    show(session, layouts, session.removed)
    if done.steps is not None:
        show(session, layouts, done.steps.plan.put)
    for claim, held in zip(batch.claims, done.claims, strict=True):
        if layouts.has_rows(claim.queues):
            show_ids(session, layouts, [one.id for one in held.due])


def _is_busy(error: sqlite3.OperationalError) -> bool:
    """Another connection writes, or has written since this one began to read."""
    return error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY


def _must_last(batch: Batch) -> bool:
    """Whether a power cut must not undo it. A lease that was not renewed just ends earlier."""
    return bool(batch.puts or batch.purges) or any(claim.durable for claim in batch.claims)
