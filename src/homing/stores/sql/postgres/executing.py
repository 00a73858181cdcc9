"""Writes the puts of a batch, and repeats what collided or was lost on the way.

Most batches are written by one statement that looks at nothing: it adds what is new, or changes
rows that this process holds. If something is in the way, and for all other batches, what the puts
need is read and locked first.

A connection that is lost before the answer leaves it open whether the server has committed. The
puts are then written again on a new connection: what is stored already is refused there as taken,
or as another version, and what is stored tells that it is our own.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import TypeVar

import psycopg
from msgspec import Struct
from psycopg.errors import UniqueViolation

from homing.domain.delivery import Delivery
from homing.ports import Put, PutAnswer
from homing.stores.judging import Effect, Known, judge
from homing.stores.sql.columns import Row
from homing.stores.sql.knowledge import Knowledge
from homing.stores.sql.layouts import LayoutTables
from homing.stores.sql.planning import Plan, plan_of
from homing.stores.sql.postgres.connection import Connection, Session
from homing.stores.sql.postgres.exactly import put_exactly
from homing.stores.sql.postgres.faults import COLLISIONS, Collision, ConnectionLost, OutcomeUnknown
from homing.stores.sql.postgres.lost_answers import corrected
from homing.stores.sql.postgres.statement import Statement, run_async
from homing.stores.sql.postgres.writing import statements

T = TypeVar("T")

MOST_COLLISIONS = 20
# How long a new connection is tried for, to learn what became of a statement.
RECOVER_S = 8.0
_AGAIN_AFTER_S = 0.1
# Requests are often repeated in a burst: after one that was, so many batches look for keys first.
LOOK_FIRST = 16


class Stored(Struct):
    """The answers, and what was written, by id."""

    answers: Sequence[Sequence[PutAnswer]]
    effects: Mapping[str, Effect]
    wakes: bool


class Putting:
    """The puts of one writer, batch after batch. Whoever has the `turn` uses its connection."""

    def __init__(self, connection: Connection, layouts: LayoutTables | None) -> None:
        self.connection = connection
        self._layouts = layouts
        self.turn = asyncio.Lock()
        self._looks_first = 0

    async def put(self, puts: Sequence[Put], held: Mapping[str, Delivery]) -> Stored:
        """`held` are the records that this process has claimed.

        What can be made ahead is made while the batch before is being written.
        """
        plan = assumed_plan(puts, held)
        layouts = self._layouts
        made = [] if plan is None else list(islice(_statements(plan, layouts), 2))
        repeating = Repeating()

        async def write() -> Stored:
            if plan is not None and not repeating.was_lost and not self._looks_first:
                try:
                    return await _write_at_once(self.connection, puts, plan, made, layouts)
                except UniqueViolation:
                    self._looks_first = LOOK_FIRST
            if len(made) == 1 and plan is not None and not plan.changed:
                # Fewer new ones than in that statement are one statement, too: it proves the rest.
                run = self.connection.run
                with colliding():
                    return await put_within(run, puts, layouts, was_lost=repeating.was_lost)
            async with exactly(self.connection) as session:
                return await put_within(session.run, puts, layouts, was_lost=repeating.was_lost)

        async with self.turn:
            stored = await repeating.run(write)
            self._looks_first = max(self._looks_first - 1, 0)
            return stored


def assumed_plan(puts: Sequence[Put], held: Mapping[str, Delivery]) -> Plan | None:
    """What to write without a look: new deliveries alone, or changes of held ones alone."""
    judged = judge(puts, Known(held=held, assumes_free=True))
    if not judged.is_complete or judged.counts:
        return None
    effects = judged.effects.values()
    are_new = all(one.before is None for one in effects)
    if not are_new and (judged.keys or any(one.is_exact for one in effects)):
        return None
    plan = plan_of(judged)
    if are_new:
        return None if plan.contents else plan
    facts = [fact for one in effects for write in one.writes for fact in write.facts]
    facts += [fact for put in puts for fact in put.facts]
    # The last value of a fact counts; but one whose claim is lost writes none.
    is_clear = len(facts) == len(judged.facts) and all(fact.value is not None for fact in facts)
    return plan if is_clear and not plan.recipients and not plan.recipients_gone else None


async def _write_at_once(
    connection: Connection,
    puts: Sequence[Put],
    plan: Plan,
    made: Sequence[Statement],
    layouts: LayoutTables | None,
) -> Stored:
    """`made` are the first two statements, or all. Several are one transaction: while the server
    runs one, the next is made.

    Changes are written each by itself: the claims of those that were not were lost.
    """
    judged = plan.judged
    answers, effects = judged.answers, judged.effects
    if len(made) > 1:
        async with connection.transaction() as session, session.sending() as send:
            for statement in chain(made, islice(_statements(plan, layouts), len(made), None)):
                await send(statement)
    elif made:
        saved = {row[0] for row in await connection.run(made[0])}
        if plan.changed and not saved.issuperset(effects):
            effects = {one: effect for one, effect in effects.items() if one in saved}
            answers = [
                [answer and write.delivery.id in saved for write, answer in pairs]
                for pairs in map(zip, [put.writes for put in puts], answers)
            ]
    return Stored(answers, effects, judged.wakes)


def _statements(plan: Plan, layouts: LayoutTables | None) -> Iterator[Statement]:
    return statements(plan, is_held=bool(plan.changed), layouts=layouts)


@contextlib.asynccontextmanager
async def exactly(connection: Connection) -> AsyncIterator[Session]:
    """A transaction that reads before it writes."""
    with colliding():
        async with connection.transaction() as session:
            yield session


@contextlib.contextmanager
def colliding() -> Iterator[None]:
    """Another process takes a key or an id at the same moment."""
    try:
        yield
    except UniqueViolation as error:
        raise Collision(str(error)) from error


async def put_within(
    run: Callable[[Statement], Awaitable[list[Row]]],
    puts: Sequence[Put],
    layouts: LayoutTables | None = None,
    *,
    was_lost: bool = False,
) -> Stored:
    """Reads before it writes. `run` is that of a transaction."""
    knowledge = Knowledge()
    judged = await run_async(put_exactly(puts, knowledge, layouts), run)
    answers = corrected(puts, judged.answers, knowledge) if was_lost else judged.answers
    return Stored(answers, judged.effects, judged.wakes)


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
