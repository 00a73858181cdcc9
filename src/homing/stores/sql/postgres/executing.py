"""Runs groups of adds and saves, and repeats what collided with other transactions."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TypeVar

import psycopg
from psycopg.errors import UniqueViolation

from homing.ports import Added, Existing
from homing.stores.sql.postgres.adding import Adding, AddRequest
from homing.stores.sql.postgres.changes import ChangeEntry, SaveRequest
from homing.stores.sql.postgres.connection import Connection
from homing.stores.sql.postgres.faults import COLLISIONS, Collision
from homing.stores.sql.postgres.rows import Facts
from homing.stores.sql.postgres.saving import save_exactly
from homing.stores.sql.postgres.settling import settle_statement
from homing.stores.sql.postgres.statement import Statement

T = TypeVar("T")

MOST_COLLISIONS = 20


async def add_all(
    connection: Connection, requests: Sequence[AddRequest]
) -> list[tuple[list[Added | Existing], bool]]:
    """For each request its answers, and whether something may be due."""
    adding = Adding(requests)
    collisions = 0
    while (statement := adding.statement()) is not None:
        try:
            adding.learn(await connection.run(statement))
        except psycopg.Error as error:
            collisions += 1
            if not _is_collision(error) or collisions > MOST_COLLISIONS:
                raise
            adding.collide()
    return [(answers, adding.wakes) for answers in adding.answers]


async def save_all(connection: Connection, requests: Sequence[SaveRequest]) -> list[bool]:
    """For each request whether something may be due; its entries say what was kept."""
    together = _Together()
    alone = [request for request in requests if not together.takes(request)]
    statement = together.statement()
    if statement is not None:
        rows = await _repeated(partial(connection.run, statement))
        saved = {row[0] for row in rows}
        for entry in together.entries:
            entry.kept = entry.write.delivery.id in saved
    for request in alone:
        await _repeated(partial(_save_alone, connection, request))
    return [any(e.kept and e.write.wakes for e in request.entries) for request in requests]


async def _save_alone(connection: Connection, request: SaveRequest) -> None:
    for entry in request.entries:
        entry.kept = False
    async with connection.transaction() as session:
        await save_exactly(session, request)


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
        if self._ids.intersection(ids) or self._fact_keys.intersection(keys):
            return False
        self.entries += request.entries
        self._ids.update(ids)
        self._fact_keys.update(keys)
        self._facts.note(request.facts)
        return True

    def statement(self) -> Statement | None:
        wakes = any(entry.write.wakes for entry in self.entries)
        return settle_statement(
            sorted(self.entries, key=lambda entry: entry.write.delivery.id),
            self._facts,
            wakes=wakes,
        )


async def _repeated(work: Callable[[], Awaitable[T]]) -> T:
    for _ in range(MOST_COLLISIONS):
        try:
            return await work()
        except psycopg.Error as error:
            if not _is_collision(error):
                raise
        except Collision:
            pass
    return await work()


def _is_collision(error: psycopg.Error) -> bool:
    return isinstance(error, UniqueViolation) or error.sqlstate in COLLISIONS
