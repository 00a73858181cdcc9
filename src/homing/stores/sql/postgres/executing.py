"""Runs groups of adds and saves, and repeats what collided or was lost on the way.

A connection that is lost before the answer leaves it open whether the server has committed. The
statement is then run again on a new connection: what is stored already is refused there as taken,
or as another version, and a look by id and version tells that it is our own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TypeVar

import psycopg
from msgspec.structs import replace
from psycopg.errors import UniqueViolation

from homing.domain.delivery import Delivery
from homing.domain.writes import Write
from homing.ports import Added, Existing
from homing.stores.sql.postgres.adding import Adding, AddRequest
from homing.stores.sql.postgres.adding_alone import lone_statement
from homing.stores.sql.postgres.changes import ChangeEntry, SaveRequest
from homing.stores.sql.postgres.connection import Connection
from homing.stores.sql.postgres.dialect import DIALECT, answer
from homing.stores.sql.postgres.faults import COLLISIONS, Collision, ConnectionLost, OutcomeUnknown
from homing.stores.sql.postgres.rows import Facts
from homing.stores.sql.postgres.saving import save_exactly
from homing.stores.sql.postgres.settling import settle_statement
from homing.stores.sql.postgres.statement import Statement
from homing.stores.sql.reading import get_many

T = TypeVar("T")

MOST_COLLISIONS = 20
# How long a new connection is tried for, to learn what became of a statement.
RECOVER_S = 8.0
_AGAIN_AFTER_S = 0.1


async def add_all(
    connection: Connection, requests: Sequence[AddRequest]
) -> list[tuple[list[Added | Existing], bool]]:
    """For each request its answers, and whether something may be due."""
    repeating = _Repeating()
    lone = lone_statement(requests)
    if lone is not None:
        try:
            if await repeating.run(partial(connection.run, lone)):
                return [([Added(requests[0].entries[0].write.delivery.id)], True)]
        except UniqueViolation:  # the id is taken
            repeating.count()
    adding = Adding(requests)
    if repeating.was_lost or any(request.may_be_stored for request in requests):
        adding.collide()
    while (statement := adding.statement()) is not None:
        try:
            adding.learn(await repeating.run(partial(connection.run, statement)))
        except UniqueViolation:
            repeating.count()
            adding.collide()
        if repeating.was_lost:
            adding.collide()
    return [
        (
            _own(request, answers) if repeating.was_lost or request.may_be_stored else answers,
            adding.wakes,
        )
        for request, answers in zip(requests, adding.answers, strict=True)
    ]


def _own(request: AddRequest, answers: list[Added | Existing]) -> list[Added | Existing]:
    """What is taken by the very delivery that was to be added was added by the lost statement."""
    return [
        Added(answer.delivery_id) if answer.delivery_id == entry.write.delivery.id else answer
        for entry, answer in zip(request.entries, answers, strict=True)
    ]


async def save_all(connection: Connection, requests: Sequence[SaveRequest]) -> list[bool]:
    """For each request whether something may be due; its entries say what was kept."""
    together = _Together()
    alone = [request for request in requests if not together.takes(request)]
    statement = together.statement()
    if statement is not None:
        repeating = _Repeating()
        saved = {row[0] for row in await repeating.run(partial(connection.run, statement))}
        for entry in together.entries:
            entry.kept = entry.write.delivery.id in saved
        await repeating.look(connection, together.entries)
    for request in alone:
        repeating = _Repeating()
        await repeating.run(partial(_save_alone, connection, request))
        await repeating.look(connection, request.entries)
    return [any(e.kept and e.write.wakes for e in request.entries) for request in requests]


async def _save_alone(connection: Connection, request: SaveRequest) -> None:
    for entry in request.entries:
        entry.kept = False
    try:
        async with connection.transaction() as session:
            await save_exactly(session, request)
    except UniqueViolation as error:  # of a child that another process adds at the same moment
        raise Collision(str(error)) from error


class _Together:
    """Requests whose changes can be written by one statement."""

    def __init__(self) -> None:
        self.entries: list[ChangeEntry] = []
        self._ids: set[str] = set()
        self._facts = Facts()
        self._fact_keys: set[tuple[str, str]] = set()

    def takes(self, request: SaveRequest) -> bool:
        """False: an entry has to be read first, or two of them write the same row."""
        if not all(entry.is_held for entry in request.entries):
            return False
        ids = [entry.write.delivery.id for entry in request.entries]
        keys = [row[:2] for entry in request.entries for row in entry.facts]
        keys += {(fact.kind, fact.key) for fact in request.facts}
        if len({*ids}) < len(ids) or len({*keys}) < len(keys):
            return False
        if not (self._ids.isdisjoint(ids) and self._fact_keys.isdisjoint(keys)):
            return False
        self.entries += request.entries
        self._ids.update(ids)
        self._fact_keys.update(keys)
        self._facts.note(request.facts)
        return True

    def statement(self) -> Statement | None:
        """In the order of ids, so that two processes that save the same rows wait in turn."""
        entries = sorted(self.entries, key=lambda entry: entry.write.delivery.id)
        wakes = any(entry.write.wakes for entry in entries)
        return settle_statement(entries, self._facts, wakes=wakes)


class _Repeating:
    """Runs something until it neither collides nor is lost on the way."""

    def __init__(self) -> None:
        self._collisions = 0
        self.was_lost = False

    def count(self) -> None:
        self._collisions += 1
        if self._collisions > MOST_COLLISIONS:
            raise Collision("other transactions were in the way each time")

    async def run(self, work: Callable[[], Awaitable[T]]) -> T:
        while True:
            try:
                return await self._recovered(work) if self.was_lost else await work()
            except ConnectionLost:
                self.was_lost = True
            except Collision:
                self.count()
            except psycopg.Error as error:
                if error.sqlstate not in COLLISIONS:
                    raise
                self.count()

    async def _recovered(self, work: Callable[[], Awaitable[T]]) -> T:
        """After a loss a server that cannot be reached, or is starting, is asked again."""
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + RECOVER_S
        while True:
            try:
                return await work()
            except psycopg.OperationalError as error:
                if error.sqlstate in COLLISIONS:
                    raise
                if loop.time() > deadline_s:
                    text = str(error).strip().partition("\n")[0]
                    raise OutcomeUnknown(text) from error
                await asyncio.sleep(_AGAIN_AFTER_S)

    async def look(self, connection: Connection, entries: Sequence[ChangeEntry]) -> None:
        """Which of those that were refused after a loss had been written by the lost statement."""
        refused = [entry for entry in entries if not entry.kept]
        if not self.was_lost or not refused:
            return
        ids = [entry.write.delivery.id for entry in refused]
        found = await self._recovered(lambda: answer(connection, get_many(DIALECT, ids)))
        for entry, stored in zip(refused, found, strict=True):
            entry.kept = _is_written(entry.write, stored)


def _is_written(write: Write, stored: Delivery | None) -> bool:
    if stored is None:
        return write.removes
    written = replace(
        write.delivery,
        version=write.delivery.version + 1,
        open_children=stored.open_children,
        due_at_ms=stored.due_at_ms
        if write.due_at_zero_ms is not None
        else write.delivery.due_at_ms,
    )
    return written == stored
