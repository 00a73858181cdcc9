"""What `import homing` offers, and what it does not drag along."""

from __future__ import annotations

import importlib
import inspect
import json
import re
import subprocess
import sys
import tomllib
import typing
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import msgspec
import pytest
import typer

import homing
import homing.plugins
import homing.plugins.telemetry
import homing.ports
from homing.engine.access.tokens import Tokens
from homing.engine.ops.bulk import BulkActions
from homing.engine.ops.operations import Operations
from homing.engine.work.steps import Packed
from homing.runtime.sync import SyncHoming
from homing.settings import Loaded, tree
from homing.settings.own import Own
from tests import public_modules

OFFERED = [
    "Attachment",
    "Attempt",
    "BulkProgress",
    "Cursor",
    "Delivery",
    "DeliveryFilter",
    "Email",
    "Event",
    "Exponential",
    "Fact",
    "Failure",
    "FailureGroup",
    "FullJitter",
    "HandlerCall",
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
    "Refused",
    "Request",
    "Retention",
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


def test_the_names_for_plugins_load_little_more() -> None:
    statement = "import homing.plugins, homing.stores.purging, homing.stores.queries"
    loaded, build = set(modules_of("import homing")), set(modules_of(statement))

    # `importlib.metadata`, which finds the installed plugins, reads e-mail headers.
    assert {name.partition(".")[0] for name in build} & LEFT_OUT == {"email"}
    assert len(build - loaded) < FEW_MODULES_TO_BUILD


# What a user of the library holds in hand: the names above, and what `Homing` gives.
GIVEN = (SyncHoming, Operations, BulkActions, Tokens)
ROOT = Path(__file__).parents[2]
MODULES = [
    importlib.import_module(name)
    for name in public_modules.listed()
    if not name.startswith("homing.contrib.")  # these need a project of their framework
]


def public_classes() -> Iterator[type]:
    for module in MODULES:
        for name in sorted(public_modules.names_in(module)):
            found = getattr(module, name)
            if inspect.isclass(found) and found.__module__.startswith("homing"):
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
    offered = [getattr(module, name) for name in sorted(public_modules.names_in(module))]

    assert [f.__name__ for f in offered if inspect.isfunction(f) and not f.__doc__] == []


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
        if not name.startswith("_") and name != "sessions"
    ]
    seen: set[type] = set()
    new = {found for hint in hints for value in hint.values() for found in named_in(value)}
    while new:
        seen |= new
        fields = [typing.get_type_hints(each) for each in new if issubclass(each, msgspec.Struct)]
        new = {found for hint in fields for value in hint.values() for found in named_in(value)}
        new -= seen
    assert sorted(each.__qualname__ for each in seen - set(public_classes())) == []


# Reached through a public value, or made by Homing alone.
NEVER_NAMED = {
    Loaded,
    Own,
    Packed,
    tree.DkimSettings,
    tree.LimitSettings,
    tree.LogSettings,
    tree.RouteSettings,
    tree.ServerSettings,
    tree.TelemetrySettings,
}


def hints_of(found: object) -> Iterator[object]:
    """The types of a function, or of a class's fields and public methods."""
    lazy = {"Path": Path, "typer": typer, "Telemetry": homing.plugins.telemetry.Telemetry}
    if inspect.isclass(found):
        if issubclass(found, msgspec.Struct) or getattr(found, "_is_protocol", False):
            yield from typing.get_type_hints(found, localns=lazy).values()
        for name, member in vars(found).items():
            method = member.fget if isinstance(member, property) else inspect.unwrap(member)
            method = getattr(method, "__func__", method)
            if inspect.isfunction(method) and not name.startswith("_"):
                yield from typing.get_type_hints(method, localns=lazy).values()
    elif inspect.isfunction(found):
        yield from typing.get_type_hints(found, localns=lazy).values()


def classes_in(hint: object) -> Iterator[type]:
    """The classes of Homing that a type is made of."""
    for part in typing.get_args(hint):
        for each in part if isinstance(part, list) else [part]:
            yield from classes_in(each)
    origin = typing.get_origin(hint) or hint
    if inspect.isclass(origin) and origin.__module__.startswith("homing"):
        yield origin


@pytest.mark.parametrize("module", [homing.plugins, homing.ports], ids=lambda m: m.__name__)
def test_what_authors_build_can_be_typed_by_public_names(module: ModuleType) -> None:
    """Whatever a public name takes or returns has a public name itself."""
    public = set(public_classes())
    missing = {
        f"{name} needs {needed.__qualname__}"
        for name in module.__all__
        for hint in hints_of(getattr(module, name))
        for needed in classes_in(hint)
        if needed not in NEVER_NAMED and needed not in public
    }
    assert sorted(missing) == []


def test_the_systems_may_import_the_public_modules_alone() -> None:
    """The contract of import-linter allows exactly what the reference lists."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    [contract] = [
        each
        for each in settings["contracts"]
        if each["name"] == "The systems import public names only"
    ]

    assert contract["ignore_imports"] == [
        f"homing_systems.** -> {name}" for name in public_modules.listed()
    ]


def test_a_guide_uses_each_public_name() -> None:
    guides = [ROOT / "README.md", *sorted((ROOT / "docs" / "guides").glob("*.md"))]
    words = {word for path in guides for word in re.findall(r"\w+", path.read_text("utf-8"))}

    assert [name for name in OFFERED if name not in words] == []
    assert len(OFFERED) <= 40
