"""What `import homing` offers, and what it does not drag along."""

from __future__ import annotations

import inspect
import json
import subprocess
import sys
import typing
from collections.abc import Iterator
from types import ModuleType

import msgspec
import pytest

import homing
import homing.build
import homing.build.stores
import homing.events
import homing.ports
import homing.testing.clocks
import homing.testing.outbox
import homing.testing.random_numbers
import homing.testing.scripted
from homing.engine.access.tokens import Tokens
from homing.engine.ops.bulk import BulkActions
from homing.engine.ops.operations import Operations
from homing.runtime.sync import SyncHoming

OFFERED = [
    "Assignment",
    "Attachment",
    "Attempt",
    "BulkProgress",
    "Cursor",
    "Cycle",
    "Delivery",
    "DeliveryFilter",
    "Email",
    "Event",
    "Exponential",
    "Fact",
    "Failure",
    "FailureGroup",
    "FullJitter",
    "Homing",
    "HomingError",
    "IdempotencyConflict",
    "InvalidRequest",
    "Invitation",
    "Job",
    "Ladder",
    "NotAllowed",
    "NotFound",
    "Page",
    "Prediction",
    "Receipt",
    "Recipient",
    "Refusal",
    "Refused",
    "Request",
    "Retry",
    "RetryAfter",
    "Route",
    "SearchResult",
    "SettingsError",
    "StoreError",
    "SubmitOptions",
    "TerminalError",
    "Ticket",
]
# Each belongs to an extra, to the command line, or to one kind of store or provider.
LEFT_OUT = {
    *("typer", "click", "rich", "starlette", "uvicorn", "jinja2", "psycopg", "redis", "httpx2"),
    *("pydantic", "pydantic_settings", "structlog", "sqlite3", "email", "smtplib", "icalendar"),
    *("email_validator", "opentelemetry", "prometheus_client", "sentry_sdk", "multiprocessing"),
}
FEW_MODULES = 260
FEW_MODULES_TO_BUILD = 100


def modules_of(statement: str) -> list[str]:
    """What a fresh process has loaded after one statement."""
    code = f"{statement}\nimport json, sys\nprint(json.dumps(sorted(sys.modules)))"
    told = subprocess.run(
        [sys.executable, "-I", "-c", code], capture_output=True, text=True, check=True
    )
    names: list[str] = json.loads(told.stdout)
    return names


def test_the_public_names_are_these() -> None:
    assert homing.__all__ == OFFERED
    assert [name for name in OFFERED if not hasattr(homing, name)] == []


def test_the_import_is_light() -> None:
    bare, loaded = set(modules_of("pass")), set(modules_of("import homing"))

    assert {name.partition(".")[0] for name in loaded} & LEFT_OUT == set()
    assert len(loaded - bare) < FEW_MODULES


def test_the_names_to_build_with_load_little_more() -> None:
    loaded, build = set(modules_of("import homing")), set(modules_of("import homing.build.stores"))

    # `importlib.metadata`, which finds the installed assemblies, reads e-mail headers.
    assert {name.partition(".")[0] for name in build} & LEFT_OUT == {"email"}
    assert len(build - loaded) < FEW_MODULES_TO_BUILD


# What a user of the library holds in hand: the names above, and what `Homing` gives.
GIVEN = (SyncHoming, Operations, BulkActions, Tokens)
MODULES = (
    homing,
    homing.build,
    homing.build.stores,
    homing.testing.clocks,
    homing.testing.random_numbers,
    homing.testing.outbox,
    homing.testing.scripted,
)


def public_classes() -> Iterator[type]:
    for module in MODULES:
        names = getattr(module, "__all__", None) or vars(module)
        for name in names:
            found = getattr(module, name)
            own = "homing" if hasattr(module, "__all__") else module.__name__
            if inspect.isclass(found) and found.__module__.startswith(own) and name[0] != "_":
                yield found
    yield from GIVEN


# What implements a port is documented there.
OF_PORTS = {
    name
    for port in vars(homing.ports).values()
    if inspect.isclass(port) and getattr(port, "_is_protocol", False)
    for name, method in vars(port).items()
    if getattr(method, "__doc__", None)
}


def undocumented(cls: type) -> Iterator[str]:
    if not cls.__doc__:
        yield cls.__qualname__
    for name, member in vars(cls).items():
        method = member.__func__ if isinstance(member, classmethod | staticmethod) else member
        is_method = inspect.isfunction(method) or isinstance(method, property)
        if is_method and not method.__doc__ and name[0] != "_" and name not in OF_PORTS:
            yield f"{cls.__qualname__}.{name}"


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
def test_every_public_function_has_a_docstring(module: ModuleType) -> None:
    functions = [f for f in vars(module).values() if inspect.isfunction(f)]
    assert [f.__name__ for f in functions if not f.__name__.startswith("_") and not f.__doc__] == []


def test_every_public_class_and_method_has_a_docstring() -> None:
    classes = list(dict.fromkeys(public_classes()))

    assert [name for cls in classes for name in undocumented(cls)] == []


def named_in(hint: object) -> Iterator[type]:
    """The classes of ours that a type is made of, with those of their fields."""
    for part in typing.get_args(hint):
        yield from named_in(part)
    if inspect.isclass(hint) and hint.__module__.startswith("homing"):
        yield hint


@pytest.mark.parametrize("cls", [homing.Homing, SyncHoming, Operations, BulkActions, homing.Ticket])
def test_what_an_application_passes_and_gets_is_importable(cls: type) -> None:
    hints = [
        typing.get_type_hints(method)
        for name, method in inspect.getmembers(cls, inspect.isfunction)
        if not name.startswith("_") and name not in ("replaced", "use_as_worker", "sessions")
    ]
    seen: set[type] = set()
    new = {found for hint in hints for value in hint.values() for found in named_in(value)}
    while new:
        seen |= new
        fields = [typing.get_type_hints(each) for each in new if issubclass(each, msgspec.Struct)]
        new = {found for hint in fields for value in hint.values() for found in named_in(value)}
        new -= seen
    offered = {getattr(homing, name) for name in homing.__all__}
    offered |= {getattr(homing.events, name) for name in homing.events.__all__}

    assert sorted(each.__qualname__ for each in seen - offered) == []
