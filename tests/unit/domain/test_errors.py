"""The tree of exceptions in the module's words is the tree of its classes."""

from __future__ import annotations

import inspect

from homing.domain import errors
from homing.domain.errors import HomingError, IdempotencyConflict, InvalidRequest, SettingsError


def drawn_tree() -> dict[str, str | None]:
    """Child and parent of every line of the docstring's drawing."""
    branches: list[tuple[int, str]] = []
    parents: dict[str, str | None] = {}
    for line in (errors.__doc__ or "").splitlines():
        name = line.lstrip("│├└─ ").split(" ")[0]
        depth = len(line) - len(line.lstrip("│├└─ "))
        if not hasattr(errors, name):
            continue
        while branches and branches[-1][0] >= depth:
            branches.pop()
        parents[name] = branches[-1][1] if branches else None
        branches.append((depth, name))
    return parents


def test_every_exception_is_drawn_where_it_stands() -> None:
    classes = {
        name: cls
        for name, cls in inspect.getmembers(errors, inspect.isclass)
        if cls.__module__ == errors.__name__
    }

    real = {
        name: cls.__mro__[1].__name__ for name, cls in classes.items() if cls is not HomingError
    }
    assert drawn_tree() == {"HomingError": None, **real}


def test_a_refusal_names_what_it_is_about() -> None:
    wrong = InvalidRequest("to", "must name at least one recipient")
    taken = IdempotencyConflict("shop", "order-1", "d1")
    setting = SettingsError("HOMING_STORE", "unknown kind")

    assert (str(wrong), wrong.field) == ("to: must name at least one recipient", "to")
    assert (taken.source, taken.key, taken.delivery_id) == ("shop", "order-1", "d1")
    assert "order-1" in str(taken)
    assert (str(setting), setting.setting) == ("HOMING_STORE: unknown kind", "HOMING_STORE")
