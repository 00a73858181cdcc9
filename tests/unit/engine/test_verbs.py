"""The table of operator verbs: each row has its method, and every surface offers each row."""

from __future__ import annotations

import inspect

import pytest
import typer

from homing.cli.main import app
from homing.engine.ops.operations import Operations
from homing.engine.ops.verbs import ALL_VERBS, BULK, BULK_VERBS, ROUTE_VERBS, VERBS, Verb, past_of
from homing.web.api.operations import OPERATIONS

SHORT_CHARS = 60


def test_every_verb_has_a_row_and_every_bulk_verb_its_texts() -> None:
    assert VERBS.keys() == ALL_VERBS
    assert tuple(BULK) == BULK_VERBS
    assert {name for name, row in VERBS.items() if row.bulk is not None} == set(BULK_VERBS)


@pytest.mark.parametrize("verb", VERBS)
def test_the_method_of_a_verb_takes_its_arguments(verb: Verb) -> None:
    row = VERBS[verb]
    taken = inspect.signature(getattr(Operations, verb)).parameters
    expected = {each.name for each in row.arguments if each.kind != "email"}
    assert {"actor", row.reason_is, *expected} <= taken.keys()


@pytest.mark.parametrize("verb", VERBS)
def test_rest_and_the_command_line_offer_every_verb(verb: Verb) -> None:
    row = VERBS[verb]
    [operation] = [each for each in OPERATIONS if each.name == verb]
    assert operation.right == row.right
    assert {each.name for each in row.arguments} <= set(operation.takes.__struct_fields__)
    command = typer.main.get_command(app).commands[verb]  # type: ignore[attr-defined] # a group
    assert command.help.startswith(row.about)
    options = {parameter.name for parameter in command.params}
    assert {each.name for each in row.arguments if each.kind != "email"} <= options
    assert ("dry_run" in options) == (row.bulk is not None)


@pytest.mark.parametrize(
    "about", [*(row.about for row in VERBS.values()), *(row.about for row in ROUTE_VERBS.values())]
)
def test_a_summary_is_one_short_sentence(about: str) -> None:
    assert len(about) < SHORT_CHARS
    assert about.endswith(".")


def test_an_audit_may_hold_verbs_that_are_not_in_the_table() -> None:
    assert past_of("replay") == "replayed it"
    assert past_of("pause") == "paused the route"
    assert past_of("sign out") == "used sign out"
