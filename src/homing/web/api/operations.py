"""The table of the REST API: each operation, its right, what it takes, gives and refuses.

Routing, guarding, the `Allow` header and the OpenAPI file are all made from it.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

from msgspec import Meta, Struct

from homing.engine.access.tokens import Right
from homing.engine.ops.delivery_filter import FILTERS
from homing.engine.ops.verbs import BULK, ROUTE_VERBS, VERBS, Bulk, BulkVerb, OperatorVerb
from homing.engine.ops.views import DeliveryView
from homing.engine.process.counters import Span
from homing.web.api.live import LiveEvent
from homing.web.api.schemas import (
    VERB_BODIES,
    AcceptedOut,
    AttemptsOut,
    AuditLogOut,
    AuditOut,
    BatchIn,
    BatchOut,
    BulkIn,
    BulkOut,
    CheckOut,
    ContentOut,
    CountersOut,
    DeliveryIn,
    DoctorOut,
    ExportOut,
    FailuresOut,
    HealthOut,
    ListOut,
    MeOut,
    NothingIn,
    PausedOut,
    SearchOut,
    SettingsOut,
    SignInIn,
    SignOutIn,
    StatsOut,
    TestIn,
    TokensOut,
    UsersOut,
    VerbIn,
    WhyOut,
    WorkersOut,
)
from homing.web.http.reading import DEFAULT_LIMIT, MAX_KEY_CHARS, MAX_LIMIT

API = "/api/v1"
Method: TypeAlias = Literal["GET", "POST"]
# Called by programs without a token; the answers contain nothing that needs one.
PUBLIC: Literal["public"] = "public"


class Parameter(Struct, frozen=True):
    """A query field or a header; `kind` is its type, from which its schema is made."""

    name: str
    kind: Any
    about: str
    required: bool = False


class EventStreamOf(Struct, frozen=True):
    """An endless answer: server-sent events, each with data of this type."""

    kind: Any


class Operation(Struct, frozen=True, kw_only=True):
    """`gives` maps a status to a type (JSON), a stream, or the name of another kind of content;
    a tuple of these are alternatives."""

    name: str
    method: Method
    path: str
    right: Right | Literal["public"]
    about: str
    takes: Any = None
    example: dict[str, Any] | None = None
    gives: dict[int, Any]
    refuses: tuple[int, ...] = ()
    query: tuple[Parameter, ...] = ()
    headers: tuple[Parameter, ...] = ()


KEY = Parameter(
    "Idempotency-Key",
    Annotated[str, Meta(min_length=1, max_length=MAX_KEY_CHARS, pattern=r"^[!-~]+$")],
    "Names this request: a repeat under the same key is answered with the first delivery.",
    required=True,
)
LIMIT = Parameter(
    "limit",
    Annotated[int, Meta(ge=1, le=MAX_LIMIT)],
    f"At most this many; {DEFAULT_LIMIT} if not given.",
)
CURSOR = Parameter(
    "cursor",
    Annotated[str, Meta(pattern=r"^[A-Za-z0-9_-]+$", max_length=1000)],
    "The `next_cursor` of the page before, or the `previous_cursor` of the one after.",
)
CONDITIONS = tuple(Parameter(each.name, each.kind, each.about) for each in FILTERS.values())
EXAMPLE: dict[str, Any] = {
    "to": ["ann@example.org"],
    "subject": "Booked",
    "text": "See you on Monday",
}
WHO: dict[str, Any] = {"actor": "ann", "reason": "the mailbox exists now"}
BODY_REFUSALS = (400, 408, 413, 415, 422)


def _reading(name: str, path: str, about: str, gives: Any, **more: Any) -> Operation:
    return Operation(
        name=name, method="GET", path=path, right="read", about=about, gives={200: gives}, **more
    )


def _verb(row: OperatorVerb) -> Operation:
    examples = {each.name: each.example for each in row.arguments if each.example is not None}
    return Operation(
        name=row.name,
        method="POST",
        path=f"{API}/deliveries/{{delivery_id}}/{row.name}",
        right=row.right,
        about=f"{row.about} {row.more}".strip(),
        takes=VERB_BODIES[row.name],
        example=WHO | examples,
        gives={201 if row.makes_a_new_one else 200: DeliveryView},
        refuses=(*BODY_REFUSALS, 404, 409),
    )


# What a type cannot say: one of the two must be given.
FILTER_OR_ALL: dict[str, Any] = {
    "oneOf": [
        {"required": ["filter"], "properties": {"filter": {"type": "object", "minProperties": 1}}},
        {"required": ["all"], "properties": {"all": {"const": True}}},
    ]
}


def _bulk(verb: BulkVerb, bulk: Bulk) -> tuple[Operation, ...]:
    path, right = f"{API}/{bulk.path}", VERBS[verb].right
    return (
        Operation(
            name=f"{verb}_many",
            method="POST",
            path=path,
            right=right,
            about=bulk.about,
            takes=Annotated[BulkIn, Meta(extra_json_schema=FILTER_OR_ALL)],
            example={**WHO, "filter": {"source": "shop"}, "dry_run": True},
            gives={202: BulkOut, 200: BulkOut},
            refuses=(*BODY_REFUSALS, 429),
        ),
        _reading(
            f"show_{verb}_many", f"{path}/{{bulk_id}}", "Its progress.", BulkOut, refuses=(404,)
        ),
        Operation(
            name=f"stop_{verb}_many",
            method="POST",
            path=f"{path}/{{bulk_id}}/stop",
            right=right,
            about="Stop it before its next delivery; what is done stays.",
            takes=VerbIn,
            example=WHO,
            gives={200: BulkOut},
            refuses=(*BODY_REFUSALS, 404),
        ),
    )


OPERATIONS: tuple[Operation, ...] = (
    Operation(
        name="submit",
        method="POST",
        path=f"{API}/deliveries",
        right="send",
        about="Submit one e-mail. Accepted means stored and fsynced.",
        takes=DeliveryIn,
        example=EXAMPLE,
        gives={202: AcceptedOut, 200: AcceptedOut},
        refuses=(*BODY_REFUSALS, 409, 507),
        headers=(KEY,),
    ),
    Operation(
        name="submit_batch",
        method="POST",
        path=f"{API}/deliveries/batch",
        right="send",
        about="Submit many, each with its own key, in one durable write.",
        takes=BatchIn,
        example={"items": [{"idempotency_key": "booking-42", **EXAMPLE}]},
        gives={202: BatchOut, 200: BatchOut},
        refuses=(*BODY_REFUSALS, 507),
    ),
    _reading(
        "list",
        f"{API}/deliveries",
        "Deliveries, newest first.",
        ListOut,
        query=(*CONDITIONS, LIMIT, CURSOR),
        refuses=(400,),
    ),
    _reading(
        "show", f"{API}/deliveries/{{delivery_id}}", "One delivery.", DeliveryView, refuses=(404,)
    ),
    _reading(
        "attempts",
        f"{API}/deliveries/{{delivery_id}}/attempts",
        "Every attempt of a delivery.",
        AttemptsOut,
        refuses=(404,),
    ),
    _reading(
        "audit",
        f"{API}/deliveries/{{delivery_id}}/audit",
        "What operators did to a delivery.",
        AuditOut,
        refuses=(404,),
    ),
    _reading(
        "content",
        f"{API}/deliveries/{{delivery_id}}/content",
        "What a delivery carries; for roles that see personal data.",
        ContentOut,
        refuses=(404,),
    ),
    _reading(
        "why",
        f"{API}/deliveries/{{delivery_id}}/why",
        "What happened to a delivery and what comes next, in plain sentences.",
        WhyOut,
        refuses=(404,),
    ),
    *(_verb(row) for row in VERBS.values()),
    *(operation for verb, bulk in BULK.items() for operation in _bulk(verb, bulk)),
    *(
        Operation(
            name=row.name,
            method="POST",
            path=f"{API}/routes/{{route}}/{row.name}",
            right=row.right,
            about=row.about,
            takes=VerbIn,
            example=WHO,
            gives={200: PausedOut},
            refuses=(*BODY_REFUSALS, 404),
        )
        for row in ROUTE_VERBS.values()
    ),
    Operation(
        name="check_provider",
        method="POST",
        path=f"{API}/routes/{{route}}/check",
        right="operate",
        about="Ask the provider of a route whether it can be used. Nothing is sent.",
        takes=NothingIn,
        example={},
        gives={200: CheckOut},
        refuses=(*BODY_REFUSALS, 404),
    ),
    Operation(
        name="send_test",
        method="POST",
        path=f"{API}/routes/{{route}}/test",
        right="send",
        about="Send a test message by a route.",
        takes=TestIn,
        example={"to": "ann@example.org"},
        gives={202: AcceptedOut},
        refuses=(*BODY_REFUSALS, 404, 409, 507),
    ),
    _reading("stats", f"{API}/stats", "Deliveries by route and state.", StatsOut, refuses=(400,)),
    _reading(
        "workers",
        f"{API}/workers",
        "Processes with a heartbeat, and the queues they serve.",
        WorkersOut,
        refuses=(400,),
    ),
    _reading(
        "counters",
        f"{API}/counters",
        "How many deliveries were accepted, delivered and failed over time, how many waited, and"
        " times to deliver.",
        CountersOut,
        query=(
            Parameter("span", Span, "How far back; `hour` if not given."),
            Parameter("route", str, "Of this route only."),
        ),
        refuses=(400, 404),
    ),
    _reading(
        "search",
        f"{API}/search",
        "Deliveries by an id, a recipient, a key, or words of the error of a dead letter.",
        SearchOut,
        query=(
            Parameter(
                "q", Annotated[str, Meta(min_length=1, max_length=500)], "The text.", required=True
            ),
            LIMIT,
        ),
        refuses=(400,),
    ),
    _reading(
        "export",
        f"{API}/export",
        "All deliveries that the filters choose, newest first, as a file.",
        ("text/csv", ExportOut),
        query=(
            Parameter("format", Literal["csv", "json"], "`csv` if not given."),
            *CONDITIONS,
        ),
        refuses=(400,),
    ),
    _reading(
        "failures", f"{API}/failures", "Dead letters by error class.", FailuresOut, refuses=(400,)
    ),
    _reading(
        "events",
        f"{API}/events",
        "Every transition as it happens (server-sent events).",
        EventStreamOf(LiveEvent),
        query=(Parameter("route", str, "Of this route only."),),
        refuses=(400,),
    ),
    _reading(
        "audit_log",
        f"{API}/audit",
        "What operators did to deliveries, routes and access, newest first.",
        AuditLogOut,
        query=(LIMIT, CURSOR),
        refuses=(400,),
    ),
    _reading("me", f"{API}/me", "Who calls, and what they may do.", MeOut, refuses=(400,)),
    Operation(
        name="sign_in",
        method="POST",
        path=f"{API}/sign-in",
        right=PUBLIC,
        about="Begin a session: its cookie then proves who calls.",
        takes=SignInIn,
        example={"name": "ann", "password": "correct horse battery"},
        gives={200: MeOut},
        refuses=(*BODY_REFUSALS, 401, 403, 409, 429, 500, 503),
    ),
    Operation(
        name="sign_out",
        method="POST",
        path=f"{API}/sign-out",
        right="read",
        about="End this session, or all sessions of the person.",
        takes=SignOutIn,
        example={"everywhere": True},
        gives={200: MeOut},
        refuses=BODY_REFUSALS,
    ),
    *(
        Operation(
            name=name,
            method="GET",
            path=f"{API}/{name}",
            right="administer",
            about=about,
            gives={200: gives},
            refuses=(400,),
        )
        for name, about, gives in (
            ("users", "The people who may sign in or are named by a proxy.", UsersOut),
            ("tokens", "API tokens, without their secrets.", TokensOut),
            ("settings", "The settings in force, secrets masked.", SettingsOut),
            ("doctor", "What the doctor found last.", DoctorOut),
        )
    ),
    Operation(
        name="examine",
        method="POST",
        path=f"{API}/doctor",
        right="administer",
        about="Run the doctor now; this takes up to half a minute on a large store.",
        takes=NothingIn,
        example={},
        gives={200: DoctorOut},
        refuses=(*BODY_REFUSALS, 409),
    ),
    _reading("metrics", "/metrics", "Counts for Prometheus.", "text/plain"),
    *(
        Operation(name=name, method="GET", path=path, right=PUBLIC, about=about, gives=gives)
        for name, path, about, gives in (
            ("healthz", "/healthz", "The process runs.", {200: HealthOut}),
            (
                "readyz",
                "/readyz",
                "The store can be read and written.",
                {200: HealthOut, 503: HealthOut},
            ),
            ("openapi", f"{API}/openapi.json", "This document.", {200: dict[str, Any]}),
        )
    ),
)
