"""A large add in parts: the server writes one while the caller makes the next.

All parts are one transaction. Keys are not looked up before: one that is taken is a unique
violation. Then, as after any collision, everything is undone, and the store adds the whole again in
the way that looks first (see adding.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import psycopg
from psycopg.errors import UniqueViolation

from homing.domain.delivery import New
from homing.ports import Added, Existing
from homing.stores.sql.postgres.adding import AddRequest, NewRows, add_request
from homing.stores.sql.postgres.connection import Connection, Session
from homing.stores.sql.postgres.faults import COLLISIONS, ConnectionLost


class AddInParts:
    """After `write` has returned None, `rest` is to be added in the other way."""

    def __init__(self, parts: Iterable[Sequence[New]]) -> None:
        self.new: list[New] = []
        self.wakes = False
        self._parts = self._noted(parts)
        self._may_be_stored = False

    def _noted(self, parts: Iterable[Sequence[New]]) -> Iterator[Sequence[New]]:
        for part in parts:
            self.new += part
            yield part

    async def write(self, connection: Connection) -> list[Added | Existing] | None:
        """The answers; None if something was in the way, and nothing is stored or may be."""
        try:
            async with connection.transaction() as session:
                return await self._write(session)
        except ConnectionLost:
            self._may_be_stored = True
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
        request = add_request(self.new)
        request.may_be_stored = self._may_be_stored
        return request

    async def _write(self, session: Session) -> list[Added | Existing]:
        rows = NewRows(set(), {})
        answers: list[Added | Existing] = []
        async with session.sending() as send:
            for part in self._parts:
                answers += rows.add_plain(part) or map(rows.add, add_request(part).entries)
                statement = rows.statement_of_part()
                if statement is not None:
                    await send(statement)
        self.wakes = rows.wakes
        return answers
