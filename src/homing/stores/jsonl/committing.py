"""One group of requests under one lock: reads first, then each change, then one write for all."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import Any, Literal, TypeAlias

from msgspec import Struct

from homing.domain.errors import StoreError, StoreFull, StoreLocked
from homing.stores.jsonl.index import Changes
from homing.stores.jsonl.log import DamagedLine, Log
from homing.stores.os_errors import store_error

# Reads and changes work on the index, maintenance on the log itself.
Work: TypeAlias = Callable[[Any], Any]
Kind: TypeAlias = Literal["read", "change", "maintenance"]


class Job(Struct, eq=False):
    """A request on its way to the thread of the store, and where the answer goes.

    `until_s`: how long it waits for the lock of the queue, by the monotonic clock.
    """

    work: Work
    future: asyncio.Future[Any]
    until_s: float
    kind: Kind = "change"
    size: int = 1
    durable: bool = True
    answer: Any = None
    error: BaseException | None = None


def run(log: Log, jobs: Sequence[Job]) -> bool:
    """Each job has its answer or its error afterwards; true if something may be due."""
    may_be_due = _run_in_time(log, jobs)
    damaged = [job for job in jobs if isinstance(job.error, DamagedLine)]
    for job in damaged:
        job.error = None
    # What is damaged is set aside before they run again.
    return _run_in_time(log, damaged) or may_be_due


def _run_in_time(log: Log, jobs: Sequence[Job]) -> bool:
    while jobs:
        try:
            return _run(log, jobs)
        except StoreLocked as error:
            now_s = time.monotonic()
            _refuse([job for job in jobs if job.until_s <= now_s], error)
            jobs = [job for job in jobs if job.until_s > now_s]
        except OSError as error:
            _refuse(jobs, store_error(error, log.path))
            return False
        except StoreError as error:
            _refuse(jobs, error)
            return False
    return False


def _run(log: Log, jobs: Sequence[Job]) -> bool:
    reads = [job for job in jobs if job.kind == "read"]
    if len(reads) == len(jobs) and log.is_current:
        _answer(reads, log.index)
        return False
    with log.locked(min(job.until_s for job in jobs)):
        # Before the changes: a read must not show what is not yet on the disk.
        _answer(reads, log.index)
        _answer([job for job in jobs if job.kind == "maintenance"], log)
        return _change(log, [job for job in jobs if job.kind == "change"])


def _answer(jobs: Sequence[Job], subject: Any) -> None:
    for job in jobs:
        try:
            job.answer = job.work(subject)
        except Exception as error:
            job.error = error


def _change(log: Log, jobs: Sequence[Job]) -> bool:
    index, group = log.index, log.group()
    commits: list[tuple[Job, Changes]] = []
    last_commit, may_be_due = index.last_commit, False
    for job in jobs:
        changes = index.begin()
        try:
            job.answer = job.work(index)
            has_changed = log.add_commit(group, changes)
        except Exception as error:
            index.undo(changes)
            job.error = error
            continue
        if has_changed:
            may_be_due |= index.may_be_due
            commits.append((job, changes))
    if not commits:
        return False
    try:
        durable = any(job.durable for job, _ in commits)
        log.write(group, durable=durable)
    except StoreError as error:
        for _, changes in reversed(commits):
            index.undo(changes)
        index.last_commit = last_commit
        if isinstance(error, StoreFull) and len(commits) > 1:
            # There may be room for each of the others.
            alone = [_change(log, [job]) for job, _ in commits]
            return any(alone)
        _refuse([job for job, _ in commits], error)
        return False
    return may_be_due


def _refuse(jobs: Sequence[Job], error: Exception) -> None:
    for job in jobs:
        job.answer, job.error = None, error
