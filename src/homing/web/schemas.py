"""What the REST API takes and gives, as types; the OpenAPI file is made from these."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta, Struct, field

from homing.domain.delivery import DEFAULT_PRIORITY
from homing.engine.views import AttemptView, AuditView, DeliveryView


class AttachmentIn(Struct, frozen=True, forbid_unknown_fields=True):
    filename: str
    content_base64: bytes
    content_type: str = "application/octet-stream"


class DeliveryIn(Struct, frozen=True, forbid_unknown_fields=True, rename={"sender": "from"}):
    """An e-mail to be delivered: text and HTML, or a template with variables."""

    to: list[str]
    subject: str = ""
    text: str = ""
    html: str | None = None
    cc: list[str] = []
    bcc: list[str] = []
    sender: str | None = None
    reply_to: list[str] = []
    template_id: str | None = None
    locale: str | None = None
    variables: dict[str, Any] = field(default_factory=dict)
    attachments: list[AttachmentIn] = []
    headers: dict[str, str] = field(default_factory=dict)
    route: str | None = None
    source: str = ""
    priority: Annotated[int, Meta(ge=1, le=4)] = DEFAULT_PRIORITY
    not_before_ms: Annotated[int, Meta(ge=0)] | None = None
    expires_at_ms: Annotated[int, Meta(ge=0)] | None = None
    metadata: dict[str, str] = field(default_factory=dict)


class BatchItem(DeliveryIn, frozen=True, kw_only=True, rename={"sender": "from"}):
    """One of a batch, with its own key."""

    idempotency_key: Annotated[str, Meta(min_length=1, max_length=512)]


class BatchIn(Struct, frozen=True, forbid_unknown_fields=True):
    items: Annotated[list[BatchItem], Meta(min_length=1, max_length=1000)]


class AcceptedOut(Struct, frozen=True):
    delivery_id: str
    status: str
    created: bool


class BatchAnswer(Struct, frozen=True, omit_defaults=True):
    """Per item: stored (or found), or why not."""

    idempotency_key: str
    delivery_id: str
    status: str = ""
    created: bool = False
    conflict: bool = False


class BatchOut(Struct, frozen=True):
    items: list[BatchAnswer]


class ListOut(Struct, frozen=True):
    items: list[DeliveryView]
    next_cursor: str | None


class AttemptsOut(Struct, frozen=True):
    items: list[AttemptView]


class AuditOut(Struct, frozen=True):
    items: list[AuditView]


class WhyOut(Struct, frozen=True):
    delivery_id: str
    lines: list[str]


class VerbIn(Struct, frozen=True, forbid_unknown_fields=True):
    """Who does it, and why; both are kept."""

    actor: str
    reason: str
    evidence: str | None = None
    generation: int | None = None
    cycle: int | None = None


class ReplayFilter(Struct, frozen=True, forbid_unknown_fields=True):
    route: str | None = None
    source: str | None = None
    error_class: str | None = None
    template_id: str | None = None
    failed_because: str | None = None
    from_created_at_ms: int | None = None
    to_created_at_ms: int | None = None


class ReplaysIn(Struct, frozen=True, forbid_unknown_fields=True):
    """Replay dead letters by filter, paced; it stops itself when the same error returns."""

    actor: str
    reason: str
    filter: ReplayFilter = ReplayFilter()
    dry_run: bool = False
    per_second: Annotated[float, Meta(gt=0, le=1000)] = 10.0
    limit: Annotated[int, Meta(ge=1, le=100_000)] = 1000


class ReplaysOut(Struct, frozen=True):
    replay_id: str | None
    matched: int
    replayed: int
    state: str
    stopped_because: str | None


class ErrorGroup(Struct, frozen=True):
    error_class: str
    failed_because: str
    route: str
    count: int


class ErrorsOut(Struct, frozen=True):
    items: list[ErrorGroup]


class RouteStats(Struct, frozen=True):
    route: str
    states: dict[str, int]
    parked: bool


class StatsOut(Struct, frozen=True):
    routes: list[RouteStats]
    workers: list[str]
    at_ms: int


class HealthOut(Struct, frozen=True):
    status: str
    problems: list[str]
