"""The types of REST requests and answers; the OpenAPI file is made from these."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal, TypeAlias, cast

from msgspec import Meta, Struct, defstruct, field

from homing.domain.delivery import DEFAULT_PRIORITY, FailedBecause
from homing.engine.access.passwords import MAX_CHARS
from homing.engine.access.tokens import Right, Role
from homing.engine.access.users import MAX_NAME_CHARS, PersonRole
from homing.engine.ops.delivery_filter import DeliveryFilter
from homing.engine.ops.failure_groups import Trend
from homing.engine.ops.inspecting import WorkerView
from homing.engine.ops.search import Matched
from homing.engine.ops.verbs import VERBS, Argument, BulkVerb, OperatorVerb
from homing.engine.ops.views import AttemptView, AuditView, DeliveryView
from homing.engine.process.counters import Point, Span
from homing.ports import Finding
from homing.web.http.reading import MAX_KEY_CHARS, MAX_MS

MAX_TEXT_CHARS = 2000
MAX_WORD_CHARS = 200
MAX_BATCH = 1000

Time: TypeAlias = Annotated[datetime, Meta(tz=True, description="RFC 3339, with a time zone")]
AtMs: TypeAlias = Annotated[int, Meta(ge=0, le=MAX_MS, description="Unix time in milliseconds")]
# Patterns show callers what `check_label` and `check_line` refuse; those give clearer messages.
_CONTROLS = r"\u0000-\u001f\u007f-\u009f\u2028\u2029"
_HIDDEN = _CONTROLS + r"\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"
LINE = rf"^[^{_CONTROLS}]*$"
LABEL = rf"^[^{_HIDDEN}]*[^\s{_HIDDEN}][^{_HIDDEN}]*$"

Text: TypeAlias = Annotated[
    str,
    Meta(min_length=1, max_length=MAX_TEXT_CHARS, extra_json_schema={"pattern": LABEL}),
]
Actor: TypeAlias = Annotated[
    str,
    Meta(min_length=1, max_length=MAX_WORD_CHARS, extra_json_schema={"pattern": LABEL}),
]
Source: TypeAlias = Annotated[
    str, Meta(max_length=MAX_WORD_CHARS, extra_json_schema={"pattern": LINE})
]
Word: TypeAlias = Annotated[str, Meta(max_length=MAX_WORD_CHARS)]
Recipient: TypeAlias = Annotated[str, Meta(max_length=MAX_TEXT_CHARS)]
Key: TypeAlias = Annotated[str, Meta(max_length=MAX_KEY_CHARS)]


class AttachmentIn(Struct, frozen=True, forbid_unknown_fields=True):
    """A file that goes with the mail. With a `content_id` the HTML shows it: `cid:logo`."""

    filename: str
    content_base64: bytes
    content_type: str = "application/octet-stream"
    content_id: str | None = None


class InvitationIn(Struct, frozen=True, forbid_unknown_fields=True):
    """A calendar part; `method` is REQUEST, CANCEL or another iTIP word."""

    ics: str
    method: str = "REQUEST"


class EmailIn(Struct, frozen=True, forbid_unknown_fields=True, rename={"sender": "from"}):
    """An e-mail: text and HTML, or a template with variables; one recipient at least."""

    to: tuple[str, ...] = ()
    subject: str = ""
    text: str = ""
    html: str | None = None
    cc: tuple[str, ...] = ()
    bcc: tuple[str, ...] = ()
    sender: str | None = None
    reply_to: tuple[str, ...] = ()
    template_id: str | None = None
    locale: str | None = None
    variables: dict[str, Any] = field(default_factory=dict)
    attachments: tuple[AttachmentIn, ...] = ()
    invitation: InvitationIn | None = None
    headers: dict[str, str] = field(default_factory=dict)
    metadata: dict[str, str] = field(default_factory=dict)


class DeliveryIn(EmailIn, frozen=True, forbid_unknown_fields=True, rename={"sender": "from"}):
    """An e-mail to be delivered, and how."""

    route: str | None = None
    source: Source = ""
    priority: Annotated[int, Meta(ge=1, le=4, description="1 goes first")] = DEFAULT_PRIORITY
    send_at: Time | None = None
    expires_at: Time | None = None


class BatchItem(
    DeliveryIn, frozen=True, forbid_unknown_fields=True, kw_only=True, rename={"sender": "from"}
):
    """One of a batch, with its own key."""

    idempotency_key: Annotated[str, Meta(min_length=1, max_length=MAX_KEY_CHARS)]


class BatchIn(Struct, frozen=True, forbid_unknown_fields=True):
    """Stored in one durable write; one bad item refuses them all."""

    items: Annotated[tuple[BatchItem, ...], Meta(min_length=1, max_length=MAX_BATCH)]


class AcceptedOut(Struct, frozen=True):
    """Stored durably; `created` is false for a repeat of an earlier request."""

    delivery_id: str
    status: str
    created: bool


class BatchAnswer(Struct, frozen=True):
    """Per item: stored, found, or (`conflict`) taken by another request under the same key."""

    idempotency_key: str
    delivery_id: str
    status: str | None = None
    created: bool = False
    conflict: bool = False


class BatchOut(Struct, frozen=True):
    """The answers, in the order of the items."""

    items: list[BatchAnswer]


class ListOut(Struct, frozen=True):
    """Newest first; send `next_cursor` as `cursor` for the next page, `previous_cursor` for the
    one before."""

    items: list[DeliveryView]
    next_cursor: str | None
    previous_cursor: str | None


class ExportOut(Struct, frozen=True):
    """All that the filters choose, newest first."""

    items: list[DeliveryView]


class AttemptsOut(Struct, frozen=True):
    """Every ended attempt, then the scheduled or running one."""

    items: list[AttemptView]


class AuditOut(Struct, frozen=True):
    """What operators did to it, oldest first."""

    items: list[AuditView]


class WhyOut(Struct, frozen=True):
    """What happened, the current state, what comes next; in plain sentences."""

    delivery_id: str
    lines: list[str]


class VerbIn(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Who does it, and why; both are stored. Without an `actor` it is who calls."""

    actor: Actor | None = None
    reason: Text


_ARGUMENT_TYPES: dict[str, Any] = {"text": Text, "email": EmailIn}


def _argument_type(argument: Argument) -> Any:
    kind = _ARGUMENT_TYPES.get(argument.kind, Annotated[int, Meta(ge=argument.least, le=MAX_MS)])
    kind = Annotated[kind, Meta(description=argument.about)]
    return kind if argument.required else kind | None


def _verb_in(row: OperatorVerb) -> type[VerbIn]:
    """The body that a verb takes: who, why, and its arguments."""
    if not row.arguments:
        return VerbIn
    fields = [
        (each.name, _argument_type(each), *(() if each.required else (None,)))
        for each in row.arguments
    ]
    body = defstruct(
        f"{row.name.capitalize()}In",
        fields,
        bases=(VerbIn,),
        namespace={"__doc__": row.about},
        frozen=True,
        forbid_unknown_fields=True,
        kw_only=True,
    )
    return cast(type[VerbIn], body)


VERB_BODIES: dict[str, type[VerbIn]] = {name: _verb_in(row) for name, row in VERBS.items()}


class BulkIn(
    Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, rename={"everything": "all"}
):
    """A verb on all that the filter chooses; without a filter `all` must be true.

    Dead letters that are `uncertain` may have arrived: they are chosen only by a filter with this
    `reason`.
    """

    actor: Actor | None = None
    reason: Text
    filter: DeliveryFilter | None = None
    everything: bool = False
    dry_run: bool = False
    per_second: Annotated[float, Meta(ge=0.001, le=1000)] | None = None
    limit: Annotated[int, Meta(ge=1, le=100_000)] | None = None


class BulkPreview(Struct, frozen=True, kw_only=True):
    """What the verb would do to one delivery, or why it would be refused."""

    delivery_id: str
    status: str
    becomes: str | None
    refused_because: str | None


class BulkOut(Struct, frozen=True, kw_only=True):
    """The progress of a bulk action. A dry run has no id, and shows the first it would change.

    `uncertain_left_out` counts dead letters that the filter finds too: they must be named.
    """

    bulk_id: str | None = None
    verb: BulkVerb
    matched: int
    done: int = 0
    refused: int = 0
    state: Literal["dry_run", "running", "done", "stopped", "failed"]
    stopped_because: str | None = None
    uncertain_left_out: int = 0
    preview: list[BulkPreview] = field(default_factory=list)


class AuditEntry(Struct, frozen=True, kw_only=True):
    """What was done to a delivery (its id), a route (`route:mail`), a person (`user:ann`) or a
    token (`token:shop`)."""

    subject: str
    at_ms: int
    verb: str
    actor: str
    reason: str


class AuditLogOut(Struct, frozen=True):
    """Newest first; send `next_cursor` as `cursor` for the next page."""

    items: list[AuditEntry]
    next_cursor: str | None


class ContentPart(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """JSON as it is, anything else (a MIME message, say) as base64."""

    json: Any = None
    base64: bytes | None = None


class ContentOut(Struct, frozen=True):
    """What a delivery carries: the payload, and the kept results of its stages by name. Retention
    may have removed both."""

    payload: ContentPart | None
    results: dict[str, ContentPart]


class FailureGroupOut(Struct, frozen=True, kw_only=True):
    """Dead letters that failed in the same way. The trend compares the last hour with the hour
    before; it came back if one that was replayed has failed again like this."""

    error_class: str
    failed_because: FailedBecause
    route: str
    count: int
    newest_delivery_id: str | None
    newest_error: str | None
    first_seen_at_ms: int | None
    last_seen_at_ms: int | None
    trend: Trend
    last_hour: int
    hour_before: int
    came_back_at_ms: int | None
    came_back_delivery_id: str | None


class FailuresOut(Struct, frozen=True):
    """Dead letters by their error class, the 50 most frequent, the largest group first."""

    items: list[FailureGroupOut]


class SearchOut(Struct, frozen=True):
    """What the text was taken for, and the newest deliveries that it leads to. `filter` lists all
    of them, where a filter can."""

    matched: Matched
    items: list[DeliveryView]
    more: bool
    filter: dict[str, str] | None


class RouteStats(Struct, frozen=True):
    route: str
    states: dict[str, int]
    paused: bool


class StatsOut(Struct, frozen=True):
    """Deliveries by route and state, live workers, work in queues that no worker serves, and since
    when the delivery is due that waits longest on a route that is not paused."""

    routes: list[RouteStats]
    workers: list[str]
    at_ms: int
    unserved: dict[str, int]
    oldest_due_at_ms: int | None


class WorkersOut(Struct, frozen=True):
    """Processes with a heartbeat, the one that answers first, and how many deliveries wait in
    queues that no live worker serves."""

    items: list[WorkerView]
    unserved: dict[str, int]


class SettingOut(Struct, frozen=True):
    """`origin` is where the value comes from: a file, a variable, or `default`."""

    name: str
    value: str
    origin: str


class SettingsOut(Struct, frozen=True):
    """Every setting in force, secrets masked; none where Homing is mounted without settings."""

    items: list[SettingOut]


class NothingIn(Struct, frozen=True, forbid_unknown_fields=True):
    """An empty object."""


class DoctorOut(Struct, frozen=True):
    """What `homing doctor` finds in the running service; `at_ms` is null before the first time."""

    at_ms: int | None
    findings: list[Finding]


class CheckOut(Struct, frozen=True):
    """What the provider of a route has answered."""

    route: str
    at_ms: int
    findings: list[Finding]


class TestIn(Struct, frozen=True, forbid_unknown_fields=True):
    """Where a test message goes. Without an `actor` it is sent by who calls."""

    to: Recipient
    actor: Actor | None = None


class CountersOut(Struct, frozen=True):
    """A point for each step of the span, oldest first; the last step is not over yet."""

    span: Span
    step_ms: int
    route: str | None
    points: list[Point]


class PausedOut(Struct, frozen=True):
    """All workers know of it after `within_s`. Of the `under_way` ones, those that are being sent
    already are finished, and the others are given back."""

    route: str
    paused: bool
    within_s: float
    under_way: int


class SignInIn(Struct, frozen=True, forbid_unknown_fields=True):
    """A person of `homing user create`."""

    name: Annotated[str, Meta(min_length=1, max_length=MAX_NAME_CHARS)]
    password: Annotated[str, Meta(min_length=1, max_length=MAX_CHARS)]


class SignOutIn(Struct, frozen=True, forbid_unknown_fields=True):
    """This session, or with `everywhere` all sessions of the person."""

    everywhere: bool = False


class MeOut(Struct, frozen=True, kw_only=True):
    """Who calls. Changes need the `csrf_token`, where there is one, as `X-CSRF-Token`."""

    name: str
    role: Role
    kind: Literal["token", "person", "local"]
    rights: list[Right]
    sees_personal_data: bool
    csrf_token: str | None


class UserOut(Struct, frozen=True):
    """A person without a password is named by a proxy only."""

    name: str
    role: PersonRole
    has_password: bool
    created_at_ms: int


class UsersOut(Struct, frozen=True):
    items: list[UserOut]


class TokenOut(Struct, frozen=True):
    """`last_used_at_ms` is exact to ten minutes."""

    name: str
    role: Role
    created_at_ms: int
    last_used_at_ms: int | None


class TokensOut(Struct, frozen=True):
    items: list[TokenOut]


class HealthOut(Struct, frozen=True):
    """`problems` names what keeps it from being ready, or what a `degraded` one cannot do."""

    status: Literal["ok", "degraded", "not ready"]
    problems: list[str]
