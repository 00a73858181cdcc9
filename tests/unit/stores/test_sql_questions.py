"""Questions that yield statements: both runners answer them alike, and both dialects understand."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable

import pytest

from homing.stores.sql.asking import Ask, Steps, run, run_async
from homing.stores.sql.columns import Row
from homing.stores.sql.postgres import dialect as postgres
from homing.stores.sql.sqlite import dialect as sqlite
from homing.stores.sql.statements import fill

PARAMETER = re.compile(r"(?<!:):(\w+)\b(?!:(?!:))")
# Of indexes that one database has to be told, and of a capability that the other lacks.
OF_ONE = {
    *("numbers", "rows_of_pending", "rows_of_in_flight", "rows_of_waiting"),
    *("remove", "remove_recipient", "known_facts", "add_counts_up"),
}


def asked_twice() -> Steps[str]:
    [(first,)] = yield Ask("one")
    try:
        yield Ask("broken")
    except ZeroDivisionError:
        [(second,)] = yield Ask("two")
        return f"{first} {second}"
    return "the error was not raised inside"


def execute(ask: Ask) -> list[Row]:
    if ask.sql == "broken":
        raise ZeroDivisionError
    return [(ask.sql,)]


async def execute_async(ask: Ask) -> list[Row]:
    return execute(ask)


async def test_the_error_of_a_statement_is_raised_inside_the_question() -> None:
    assert run(asked_twice(), execute) == "one two"
    assert await run_async(asked_twice(), execute_async) == "one two"


def test_an_error_that_a_question_does_not_expect_reaches_the_caller() -> None:
    def asked() -> Steps[None]:
        yield Ask("broken")

    with pytest.raises(ZeroDivisionError):
        run(asked(), execute)


@pytest.mark.parametrize(
    ("question", "statements"),
    [
        (lambda: one(alone=True), ["select 1"]),
        (lambda: one(alone=False), ["begin", "select 1", "select 1", "commit"]),
    ],
)
def test_only_a_question_of_several_statements_needs_a_transaction(
    question: Callable[[], Steps[None]], statements: list[str]
) -> None:
    connection = sqlite3.connect(":memory:", isolation_level=None)
    seen: list[str] = []
    connection.set_trace_callback(lambda statement: seen.append(statement.lower()))
    sqlite.answer(connection, question())
    connection.close()

    assert seen == statements


def one(*, alone: bool) -> Steps[None]:
    yield Ask("select 1", alone=alone)
    if not alone:
        yield Ask("select 1")


def test_a_question_that_fails_leaves_no_transaction_open() -> None:
    connection = sqlite3.connect(":memory:", isolation_level=None)

    def asked() -> Steps[None]:
        yield Ask("select * from nowhere")

    with pytest.raises(sqlite3.OperationalError):
        sqlite.answer(connection, asked())
    assert not connection.in_transaction
    connection.close()


def test_statements_of_one_name_have_the_same_parameters_in_both_dialects() -> None:
    ours, theirs = sqlite.DIALECT.sql, postgres.DIALECT.sql
    assert {*ours} ^ {*theirs} == OF_ONE
    for name in {*ours} & {*theirs}:
        # In time order, PostgreSQL does not read a range of keys.
        more = {"until"} if name == "facts_by_time" else set()
        assert parameters(ours[name]) == parameters(theirs[name]) | more, name


def parameters(statement: str) -> set[str]:
    return {*PARAMETER.findall(statement)}


def test_a_part_is_told_from_a_parameter_with_a_cast() -> None:
    assert fill("select :a:, :a::text, :b", {"a": "x", "b": "y"}) == "select x, :a::text, :b"
