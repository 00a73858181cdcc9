"""A large add in parts: the server writes one while the caller makes the next.

All parts are one transaction. Keys are not looked up before: one that is taken is a unique
violation. Then, as after any collision, everything is undone, and the store adds the whole again in
the way that looks first (see adding.py).
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Sequence

import psycopg
from psycopg.errors import UniqueViolation

from homing.domain.delivery import New
from homing.ports import Added, Existing
from homing.stores.sql.columns import Row
from homing.stores.sql.postgres.adding import AddRequest, NewEntry, NewRows, add_request
from homing.stores.sql.postgres.connection import Connection, Session
from homing.stores.sql.postgres.faults import COLLISIONS, ConnectionLost


class AddInParts:
    """After `write` has returned None, `rest` is to be added in the other way."""

    def __init__(self, parts: Iterable[Sequence[New]]) -> None:
        self._parts = self._encoded(parts)
        self.request = AddRequest([])
        self.wakes = False

    def _encoded(self, parts: Iterable[Sequence[New]]) -> Iterator[list[NewEntry]]:
        for part in parts:
            entries = add_request(part).entries
            self.request.entries += entries
            yield entries

    async def write(self, connection: Connection) -> list[Added | Existing] | None:
        """The answers; None if something was in the way, and nothing is stored or may be."""
        try:
            async with connection.transaction() as session:
                return await self._write(session)
        except ConnectionLost:
            self.request.may_be_stored = True
        except UniqueViolation:
            pass
        except psycopg.Error as error:
            if error.sqlstate not in COLLISIONS:
                raise
        return None

    def rest(self) -> AddRequest:
        """The whole of it; parts that were not yet made are made now."""
        for _ in self._parts:
            pass
        return self.request

    async def _write(self, session: Session) -> list[Added | Existing]:
        rows = NewRows(set(), {})
        answers: list[Added | Existing] = []
        running: asyncio.Task[list[Row]] | None = None
        try:
            for entries in self._parts:
                answers += [rows.add(entry) for entry in entries]
                statement = rows.statement_of_part()
                if running is not None:
                    await running
                running = asyncio.ensure_future(session.run(statement)) if statement else None
                await asyncio.sleep(0)  # so that it is sent before the next part is made
            if running is not None:
                await running
        finally:
            if running is not None and not running.done():
                await asyncio.wait([running])
        self.wakes = rows.wakes
        return answers
