"""Questions to a database, written once for threads that block and connections that are awaited.

A question is a generator: it yields statements, is sent their rows, and returns the answer.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from typing import Any, TypeAlias, TypeVar

from msgspec import Struct

from homing.stores.codec import encode
from homing.stores.sql.columns import Row

Statement = TypeVar("Statement")
T = TypeVar("T")


class Ask(Struct, frozen=True, gc=False):
    """A statement, with the values of its `:name` parameters.

    One that is `alone` is the whole question: it needs no transaction to see one state of the
    database.
    """

    sql: str
    values: Mapping[str, Any] = {}
    alone: bool = False


Steps: TypeAlias = Generator[Ask, list[Row], T]


def listed(values: Sequence[Any]) -> str:
    """A list as one parameter: both databases take it apart as JSON."""
    return encode(values).decode()


def run(steps: Generator[Statement, list[Row], T], execute: Callable[[Statement], list[Row]]) -> T:
    """The answer to a question. The error of a statement is raised inside the question."""
    try:
        statement = next(steps)
        while True:
            try:
                rows = execute(statement)
            except Exception as error:
                statement = steps.throw(error)
            else:
                statement = steps.send(rows)
    except StopIteration as end:
        answer: T = end.value
        return answer


async def run_async(
    steps: Generator[Statement, list[Row], T],
    execute: Callable[[Statement], Awaitable[list[Row]]],
) -> T:
    """As `run`, where statements are awaited."""
    try:
        statement = next(steps)
        while True:
            try:
                rows = await execute(statement)
            except Exception as error:
                statement = steps.throw(error)
            else:
                statement = steps.send(rows)
    except StopIteration as end:
        answer: T = end.value
        return answer
