"""`show`, `attempts`, `why`: the fields of one delivery, its attempts, and its history in
sentences; `audit`: what operators did."""

from __future__ import annotations

import contextlib
import shlex
from collections import Counter
from collections.abc import Mapping
from typing import Annotated, Any

import msgspec
import typer
from msgspec import Struct
from msgspec.structs import replace

from homing.cli.options import AsJson, DeliveryId, Place, command
from homing.cli.session import ops_of, print_json, view_of, with_homing
from homing.cli.terminal import STATE_COLORS, at, colored, table
from homing.domain.delivery import FROZEN, Content
from homing.domain.errors import NotFound
from homing.domain.message import Email, decode_message
from homing.domain.redaction import visible
from homing.engine.ops.delivery_filter import DeliveryFilter
from homing.engine.ops.views import AttemptView, AuditView, DeliveryView, attempt_view, audit_view
from homing.ports import Query
from homing.runtime.app import Homing

# `attempts` of a parent names at most this many of its children.
CHILDREN_NAMED = 50


def register(app: typer.Typer) -> None:
    app.command()(command(show))
    app.command()(command(attempts))
    app.command()(command(why))
    app.command()(command(audit))


def show(place: Place, delivery_id: DeliveryId, as_json: AsJson = False) -> None:
    """All fields of one delivery, and what operators did to it."""

    async def act(homing: Homing) -> tuple[DeliveryView, str | None, list[AuditView]]:
        delivery = await homing.ops.show(delivery_id)
        audit = [audit_view(fact) for fact in await homing.ops.audit(delivery_id)]
        subject = subject_of(await ops_of(homing).content(delivery_id))
        return await view_of(homing, delivery), subject, audit

    view, subject, audit = with_homing(place, act)
    fields: dict[str, Any] = {"subject": subject, **msgspec.to_builtins(view)}
    if as_json:
        print_json({**fields, "audit": audit})
        return
    for name, value in fields.items():
        if value not in (None, [], (), {}, ""):
            color = STATE_COLORS.get(view.state) if name in ("status", "state") else None
            typer.echo(f"{name.removesuffix('_ms'):<18} {colored(_shown(name, value), color)}")
    for entry in audit:
        typer.echo(
            visible(f"{'audit':<18} {at(entry.at_ms)} {entry.actor} {entry.verb}: {entry.reason}")
        )


def subject_of(content: Content | None) -> str | None:
    """Of an e-mail; that of a template is known once it has been rendered for sending."""
    if content is None or not content.payload:
        return None
    message = decode_message(content.payload)
    if not isinstance(message, Email) or message.subject:
        return message.subject if isinstance(message, Email) else None
    from email import policy
    from email.parser import BytesHeaderParser

    frozen = BytesHeaderParser(policy=policy.default).parsebytes(content.results.get(FROZEN, b""))
    return str(frozen["subject"]) if "subject" in frozen else None


def _shown(name: str, value: Any) -> str:
    if name.endswith("_at_ms"):
        return at(value)
    if isinstance(value, list | tuple):
        return "; ".join(_shown("", item) for item in value)
    if isinstance(value, Mapping):
        pairs = {n: v for n, v in value.items() if v not in (None, "")}
        return ", ".join(f"{n.removesuffix('_ms')}={_shown(n, v)}" for n, v in pairs.items())
    return str(value).lower() if isinstance(value, bool) else str(value)


def attempts(place: Place, delivery_id: DeliveryId, as_json: AsJson = False) -> None:
    """Every attempt of a delivery, oldest first."""

    async def act(homing: Homing) -> tuple[list[AttemptView], list[str]]:
        views = [attempt_view(attempt) for attempt in await homing.ops.attempts(delivery_id)]
        return views, [] if views else await _ids_of_children(homing, delivery_id)

    views, children = with_homing(place, act)
    if as_json:
        print_json({"items": views})
        return
    if children:
        typer.echo(visible(f"Its attempts are those of its children: {', '.join(children)}"))
        return
    head = ("no", "cycle", "stage", "phase", "status", "when", "code", "what")
    rows = [
        (
            view.number,
            view.cycle,
            view.stage,
            view.phase,
            view.status,
            at(view.ended_at_ms or view.started_at_ms or view.scheduled_for_ms),
            view.code or "",
            view.detail or view.error_class or view.notification_id or "",
        )
        for view in views
    ]
    typer.echo(table(head, rows, first_to_go=("cycle", "phase", "stage")))


async def _ids_of_children(homing: Homing, parent_id: str) -> list[str]:
    page = await ops_of(homing).page(Query(parent_id=parent_id), limit=CHILDREN_NAMED)
    ids = [child.id for child in page.items]
    return ids if page.next is None else [*ids, "…"]


class Story(Struct, frozen=True):
    delivery_id: str
    status: str
    state: str
    lines: list[str]


def why(
    place: Place,
    what: Annotated[str, typer.Argument(metavar="ID-OR-ADDRESS")],
    as_json: AsJson = False,
    limit: Annotated[
        int, typer.Option(min=1, max=100, help="For an address: how many deliveries.")
    ] = 5,
) -> None:
    """What happened to a delivery, and what comes next.

    For an address: of the newest mail to it.
    """

    async def act(homing: Homing) -> tuple[list[Story], bool]:
        if "@" not in what:
            return [await _story_of_id(homing, what)], False
        page = await homing.ops.list(DeliveryFilter(recipient=what), limit=limit)
        stories = [await _story(homing, item.id) for item in page.items]
        if len(stories) < limit:
            stories += await _amended_away(homing, what, limit - len(stories))
        return stories, page.next is not None

    stories, more = with_homing(place, act)
    if not stories:
        raise NotFound(f"no mail for {what} found")
    if as_json:
        print_json({"items": stories, "more": more})
        return
    if "@" in what:
        typer.echo(visible(_summary(what, stories, more=more)))
    for story in stories:
        status = colored(story.status, STATE_COLORS.get(story.state))
        typer.echo(f"{visible(story.delivery_id)}: {status}")
        for line in story.lines:
            typer.echo(f"  {visible(line)}")


def audit(
    place: Place,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="At most this many.")] = 50,
    as_json: AsJson = False,
) -> None:
    """What operators did, newest first."""

    async def act(homing: Homing) -> list[tuple[str, AuditView]]:
        facts = await homing.ops.audit_log(limit=limit)
        return [(fact.key.rpartition("/")[0], audit_view(fact)) for fact in facts]

    entries = with_homing(place, act)
    if as_json:
        items = [{"subject": subject, **msgspec.structs.asdict(e)} for subject, e in entries]
        print_json({"items": items})
        return
    rows = [(at(e.at_ms), e.actor, e.verb, subject, e.reason) for subject, e in entries]
    typer.echo(table(("at", "who", "did", "to", "why"), rows))


async def _story(homing: Homing, delivery_id: str) -> Story:
    view = await view_of(homing, await homing.ops.show(delivery_id))
    return Story(delivery_id, view.status, view.state, await homing.explain(delivery_id))


async def _story_of_id(homing: Homing, delivery_id: str) -> Story:
    try:
        return await _story(homing, delivery_id)
    except NotFound:
        search = f"homing search {shlex.quote(delivery_id)}"
        raise NotFound(
            f"no delivery with the id {delivery_id}; to search by key or error: {search}"
        ) from None


async def _amended_away(homing: Homing, address: str, limit: int) -> list[Story]:
    """Of mail that went to this address before it was amended, as far as it is still kept."""
    stories = []
    for delivery_id in await homing.ops.formerly_for(address, limit):
        with contextlib.suppress(NotFound):
            story = await _story(homing, delivery_id)
            note = f"It was amended: it no longer goes to {address}."
            stories.append(replace(story, lines=[*story.lines, note]))
    return stories


def _summary(address: str, stories: list[Story], *, more: bool) -> str:
    number = len(stories)
    counted = Counter(story.status for story in stories)
    words = ", ".join(f"{count} {status}" for status, count in counted.items())
    which = f"the newest {number}" if more else f"{number} in all"
    return f"Mail for {address}, {which}: {words}."
