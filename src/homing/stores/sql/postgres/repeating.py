"""Repeats what collided or was lost on the way.

A connection that is lost before the answer leaves it open whether the server has committed. The
puts are then written again on a new connection: what is stored already is refused there as taken,
or as another version, and what is stored tells that it is our own (see lost_answers.py).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

import psycopg

from homing.stores.sql.postgres.faults import COLLISIONS, Collision, ConnectionLost, OutcomeUnknown

T = TypeVar("T")

MOST_COLLISIONS = 20
# How long a new connection is tried for, to learn what became of a statement.
RECOVER_S = 8.0
_AGAIN_AFTER_S = 0.1


class Repeating:
    """Runs something until it neither collides nor is lost on the way."""

    def __init__(self) -> None:
        self._collisions = 0
        self.was_lost = False

    async def run(self, work: Callable[[], Awaitable[T]], *, again_if_lost: bool = True) -> T:
        while True:
            try:
                return await self._recovered(work) if self.was_lost else await work()
            except ConnectionLost:
                if not again_if_lost:
                    raise
                self.was_lost = True
            except Collision:
                self._count()
            except psycopg.Error as error:
                if error.sqlstate not in COLLISIONS:
                    raise
                self._count()

    def _count(self) -> None:
        self._collisions += 1
        if self._collisions > MOST_COLLISIONS:
            raise Collision("other transactions were in the way each time")

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
