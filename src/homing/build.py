"""The public names to build with: routes, providers, stores and whole assemblies.

What an application uses to send is in `homing` itself. The guides show how to use these names:
`docs/guides/writing-an-assembly.md`, `writing-a-provider.md` and `writing-a-store.md`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

from msgspec import Struct
from msgspec.structs import replace

from homing.assembly import (
    Assembly,
    Endpoint,
    HttpRequest,
    HttpResponse,
    NoSettings,
    Service,
    Setup,
    Web,
)
from homing.assembly_store import why_missing
from homing.domain.delivery import (
    Attempt,
    Change,
    Content,
    Delivery,
    Fact,
    Key,
    New,
    Receipt,
    Recipient,
)
from homing.domain.errors import InvalidRequest
from homing.domain.failure import Failure, Refusal
from homing.domain.known_secrets import mask_secret
from homing.domain.loopback import is_loopback
from homing.domain.message import decode_message, encode_message
from homing.domain.policy import (
    Exponential,
    FullJitter,
    Ladder,
    Plan,
    Retention,
    Retry,
    RetryAfter,
    Stage,
)
from homing.domain.redaction import redact
from homing.engine.admitted import Admitted
from homing.engine.labels import Label, LabelTable
from homing.engine.request import Request
from homing.engine.route import ALL_VERBS, Route, classify_exception
from homing.engine.steps import SendStep
from homing.from_settings import assemble, load_program
from homing.ports import (
    Absent,
    Accepted,
    Added,
    Alarm,
    Alert,
    Checked,
    Claim,
    Claimed,
    Clock,
    Cursor,
    Dice,
    Done,
    Envelope,
    Existing,
    Facet,
    FactLookup,
    FanOut,
    Finding,
    Found,
    Journal,
    JournalPath,
    LimitedProvider,
    Lookup,
    Migrated,
    Notifier,
    Observer,
    OnceStore,
    Page,
    PermittedLookup,
    Provider,
    PurgeRule,
    Query,
    Ready,
    Showing,
    SoundsAlerts,
    StaysLocal,
    Step,
    Store,
    TakesSqlFiles,
    Transaction,
    TransactionalStore,
    Transitioned,
    Unknown,
    Work,
)
from homing.settings import Seconds, Settings
from homing.settings.own_names import env
from homing.stores.shape import Shape

__all__ = [
    "ALL_VERBS",
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
    "Claimed",
    "Clock",
    "Content",
    "Cursor",
    "Delivery",
    "Dice",
    "Done",
    "Endpoint",
    "Envelope",
    "Existing",
    "Exponential",
    "Facet",
    "Fact",
    "FactLookup",
    "Failure",
    "FanOut",
    "Finding",
    "Found",
    "FullJitter",
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
    "Notifier",
    "Observer",
    "OnceStore",
    "Page",
    "PermittedLookup",
    "Plan",
    "Provider",
    "PurgeRule",
    "Query",
    "Ready",
    "Receipt",
    "Recipient",
    "Refusal",
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
    "Shape",
    "Showing",
    "SoundsAlerts",
    "Stage",
    "StaysLocal",
    "Step",
    "Store",
    "TakesSqlFiles",
    "Transaction",
    "TransactionalStore",
    "Transitioned",
    "Unknown",
    "Web",
    "Work",
    "classify_exception",
    "decode_message",
    "encode_message",
    "env",
    "is_loopback",
    "mask_secret",
    "redact",
    "with_service",
]

S = TypeVar("S", bound=Struct)
T = TypeVar("T")


def with_service(
    assembly: Assembly[S],
    act: Callable[[Service[S]], Awaitable[T]],
    *,
    config: Path | None = None,
    store: str | None = None,
    must_exist: bool = False,
) -> T:
    """For a command of an assembly: open its store as the settings say, act, and close.

    No worker runs: what is submitted here is delivered by `homing NAME worker` or `serve`. `store`
    is the URL of another one. With `must_exist`, for a command that only reads or repairs, a store
    that would have to be made or migrated first is refused.
    """
    program = load_program(assembly, config, reading=must_exist)
    if store is not None:
        general = replace(program.general, store=store)
        program = replace(program, loaded=replace(program.loaded, settings=general))
    homing = assemble(program, worker=False)

    async def run() -> T:
        if must_exist:
            problem = await why_missing(homing.store, f"homing {assembly.name} migrate")
            if problem is not None:
                raise InvalidRequest("store", problem)
        async with homing:
            return await act(Service(homing, program.settings, program.general))

    return asyncio.run(run())
