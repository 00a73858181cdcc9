"""The public names to build with: routes, providers, records of your own and whole assemblies.

What an application uses to send is in `homing` itself, and all that a store needs in
`homing.build.stores`. The guides show how to use these names:
`docs/guides/writing-an-assembly.md`, `writing-a-provider.md` and `writing-a-store.md`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from homing.domain.delivery import (
    Attempt,
    Change,
    Content,
    Delivery,
    Fact,
    FailedBecause,
    Key,
    New,
    Receipt,
    Recipient,
    State,
)
from homing.domain.errors import InvalidRequest
from homing.domain.failure import Disposition, Failure, Refusal
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
from homing.engine.intake.admitted import Admitted
from homing.engine.intake.adopting import Foreign, ForeignState, StandingState
from homing.engine.intake.request import Request
from homing.engine.ops.labels import ENGINE_LABELS, Label, LabelTable
from homing.engine.ops.verbs import ALL_VERBS, Verb
from homing.engine.route import Route, classify_exception
from homing.engine.work.steps import SendStep
from homing.plugins.programs import assemble, load_program
from homing.plugins.store import why_missing
from homing.plugins.value import (
    Assembly,
    Endpoint,
    HttpRequest,
    HttpResponse,
    NoSettings,
    Notices,
    NoticeWriter,
    Service,
    Setup,
    Sign,
    Web,
)
from homing.ports import (
    Absent,
    Accepted,
    Added,
    Alarm,
    Alert,
    Checked,
    Claim,
    Claimed,
    ClaimObserver,
    Clock,
    Cursor,
    Described,
    Done,
    Envelope,
    Existing,
    Facet,
    FactLookup,
    FanOut,
    Finding,
    Found,
    GroupProvider,
    GroupSend,
    Journal,
    JournalPath,
    LimitedProvider,
    Lookup,
    Migrated,
    Notifier,
    Observer,
    OnceStore,
    OpenedProvider,
    Outcome,
    Page,
    PermittedLookup,
    Provider,
    PurgeRule,
    Query,
    Random,
    Ready,
    Rehearsing,
    Showing,
    SoundAlert,
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
from homing.stores.layout import (
    HIDDEN,
    Record,
    RecordKind,
    RecordLayout,
    Stored,
    iso_utc,
    ms_from_iso,
)

if TYPE_CHECKING:
    from homing.plugins.telemetry import Telemetry
else:
    # Type checkers do not see it: with it they would accept any name.
    def __getattr__(name: str) -> object:
        """`Telemetry` loads the libraries of logs, which only a program that runs needs."""
        if name != "Telemetry":
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from homing.plugins.telemetry import Telemetry  # noqa: PLC0415 - loaded on use, see above

        return Telemetry


__all__ = [
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
