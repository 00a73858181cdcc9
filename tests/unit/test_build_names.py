"""The names that `homing.build` and `homing.build.stores` offer, and that they suffice."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import msgspec
import pytest
import typer

import homing
import homing.build
import homing.build.stores
from homing.engine.work.steps import Packed
from homing.settings import tree

BUILD = [
    "ALL_VERBS",
    "ENGINE_LABELS",
    "HIDDEN",
    "Absent",
    "Accepted",
    "Added",
    "Admitted",
    "Alarm",
    "Alert",
    "Assembly",
    "Attempt",
    "Change",
    "Checked",
    "Claim",
    "ClaimObserver",
    "Claimed",
    "Clock",
    "Content",
    "Cursor",
    "Delivery",
    "Described",
    "Disposition",
    "Done",
    "Endpoint",
    "Envelope",
    "Existing",
    "Exponential",
    "Facet",
    "Fact",
    "FactLookup",
    "FailedBecause",
    "Failure",
    "FanOut",
    "Finding",
    "Foreign",
    "ForeignState",
    "Found",
    "FullJitter",
    "GroupProvider",
    "GroupSend",
    "HttpRequest",
    "HttpResponse",
    "Journal",
    "JournalPath",
    "Key",
    "Label",
    "LabelTable",
    "Ladder",
    "LimitedProvider",
    "Lookup",
    "Migrated",
    "New",
    "NoSettings",
    "NoticeWriter",
    "Notices",
    "Notifier",
    "Observer",
    "OnceStore",
    "OpenedProvider",
    "Outcome",
    "Page",
    "PermittedLookup",
    "Plan",
    "Provider",
    "PurgeRule",
    "Query",
    "Random",
    "Ready",
    "Receipt",
    "Recipient",
    "Record",
    "RecordKind",
    "RecordLayout",
    "Refusal",
    "Rehearsing",
    "Request",
    "Retention",
    "Retry",
    "RetryAfter",
    "Route",
    "Seconds",
    "SendStep",
    "Service",
    "Settings",
    "Setup",
    "Showing",
    "Sign",
    "SoundAlert",
    "SoundsAlerts",
    "Stage",
    "StandingState",
    "State",
    "StaysLocal",
    "Step",
    "Store",
    "Stored",
    "TakesSqlFiles",
    "Telemetry",
    "Transaction",
    "TransactionalStore",
    "Transitioned",
    "Unknown",
    "Verb",
    "Web",
    "Work",
    "classify_exception",
    "decode_message",
    "encode_message",
    "env",
    "is_loopback",
    "iso_utc",
    "mask_secret",
    "ms_from_iso",
    "redact",
    "with_service",
]
STORES = [
    "CLAIMABLE_STATES",
    "CLAIM_ISO",
    "CLAIM_MS",
    "EQUAL_FIELDS",
    "FACET_FIELDS",
    "PURGES",
    "TERMINAL_STATES",
    "AcceptedLog",
    "Added",
    "AddsInParts",
    "AsksLog",
    "AsyncTransaction",
    "AsyncTransactionalStore",
    "Attempt",
    "BoundedReads",
    "Change",
    "Checked",
    "Claim",
    "Claimed",
    "Compacting",
    "Content",
    "Count",
    "Cursor",
    "Delivery",
    "Existing",
    "Facet",
    "Fact",
    "FactCursor",
    "FactLookup",
    "FactOrder",
    "Finding",
    "ForeignLine",
    "GroupBy",
    "InFile",
    "JournalPath",
    "Key",
    "Migrated",
    "New",
    "OnceStore",
    "Page",
    "Presence",
    "Projection",
    "Purge",
    "PurgeKind",
    "PurgeRule",
    "Query",
    "ReadsViews",
    "Receipt",
    "Seen",
    "SharedOnHost",
    "Showing",
    "ShownRecord",
    "State",
    "Store",
    "StoreCorrupt",
    "StoreError",
    "StoreFull",
    "StoreLocked",
    "StoreOutcomeUnknown",
    "StoreUnavailable",
    "StoreUnsafe",
    "TakesLines",
    "TakesSqlFiles",
    "Transaction",
    "TransactionalStore",
    "Write",
    "WritesLayouts",
    "apply_claim",
    "group_word",
    "group_words",
    "is_open",
    "listed",
    "page_of",
    "page_to_edge",
    "paged",
    "predicate",
    "purged_states",
    "write_of_change",
    "write_of_new",
]
OFFERED = [(homing.build, BUILD), (homing.build.stores, STORES)]
# Reached through `Settings` and changed by `msgspec.structs.replace`, or made by the engine alone.
NEVER_NAMED = {
    Packed,
    tree.DkimSettings,
    tree.LimitSettings,
    tree.LogSettings,
    tree.RouteSettings,
    tree.ServerSettings,
    tree.TelemetrySettings,
}


@pytest.mark.parametrize(("module", "names"), OFFERED)
def test_the_public_names_to_build_with(module: ModuleType, names: list[str]) -> None:
    assert module.__all__ == names
    assert all(hasattr(module, name) for name in names)


def test_a_name_offered_twice_is_the_same_thing() -> None:
    for name in set(BUILD) & set(homing.__all__):
        assert getattr(homing.build, name) is getattr(homing, name)
    for name in set(STORES) & {*BUILD, *homing.__all__}:
        module = homing.build if name in BUILD else homing
        assert getattr(homing.build.stores, name) is getattr(module, name)


def test_there_are_no_other_names() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'Engine'"):
        getattr(homing.build, "Engine")  # noqa: B009 - mypy refuses it as an attribute


def hints_of(found: object) -> Iterator[object]:
    """The types of a function, or of a class's fields and public methods."""
    lazy = {"Path": Path, "typer": typer, "Telemetry": homing.build.Telemetry}
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


def test_what_is_built_can_be_typed_by_public_names() -> None:
    """Whatever a public name takes or returns has a public name itself."""
    modules = (homing, homing.build, homing.build.stores)
    offered = {name: getattr(module, name) for module in modules for name in module.__all__}
    missing = {
        f"{name} needs {needed.__qualname__}"
        for name, found in offered.items()
        if name in BUILD or name in STORES
        for hint in hints_of(found)
        for needed in classes_in(hint)
        if needed not in NEVER_NAMED and offered.get(needed.__name__) is not needed
    }
    assert sorted(missing) == []
