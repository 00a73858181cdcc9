"""`show`, `attempts`, `why`: one delivery, whole, its history, and its story."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Annotated, Any

import typer
from msgspec import Struct

from homing.app import Homing
from homing.cli.session import (
    AsJson,
    ConfigFile,
    DeliveryId,
    print_json,
    view_of,
    with_homing,
)
from homing.cli.text import at, table
from homing.domain.errors import InvalidRequest, NotFound
from homing.domain.redaction import visible
from homing.engine.views import AttemptView, AuditView, DeliveryView, attempt_view, audit_view
from homing.ports import Query


def register(app: typer.Typer) -> None:
    app.command()(show)
    app.command()(attempts)
    app.command()(why)


def show(delivery_id: DeliveryId, config: ConfigFile = None, as_json: AsJson = False) -> None:
    """One delivery, whole, with what operators did to it."""
    import msgspec

    async def act(homing: Homing) -> tuple[DeliveryView, list[AuditView]]:
        delivery = await homing.desk.show(delivery_id)
        audit = [audit_view(fact) for fact in await homing.desk.audit(delivery_id)]
        return view_of(homing, delivery), audit

    view, audit = with_homing(config, act)
    fields: dict[str, Any] = msgspec.to_builtins(view)
    if as_json:
        print_json({**fields, "audit": audit})
        return
    for name, value in fields.items():
        if value not in (None, [], (), {}, ""):
            typer.echo(visible(f"{name.removesuffix('_ms'):<18} {_shown(name, value)}"))
    for entry in audit:
        typer.echo(
            visible(f"{'audit':<18} {at(entry.at_ms)} {entry.actor} {entry.verb}: {entry.reason}")
        )


def _shown(name: str, value: Any) -> str:
    if name.endswith("_at_ms"):
        return at(value)
    if isinstance(value, list | tuple):
        return "; ".join(_shown("", item) for item in value)
    if isinstance(value, Mapping):
        pairs = {n: v for n, v in value.items() if v not in (None, "")}
        return ", ".join(f"{n.removesuffix('_ms')}={_shown(n, v)}" for n, v in pairs.items())
    return str(value).lower() if isinstance(value, bool) else str(value)


def attempts(delivery_id: DeliveryId, config: ConfigFile = None, as_json: AsJson = False) -> None:
    """Every attempt of a delivery, the next one last."""

    async def act(homing: Homing) -> list[AttemptView]:
        return [attempt_view(attempt) for attempt in await homing.desk.attempts(delivery_id)]

    views = with_homing(config, act)
    if as_json:
        print_json({"items": views})
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
    typer.echo(table(head, rows))


class Story(Struct, frozen=True):
    delivery_id: str
    status: str
    lines: list[str]


def why(
    what: Annotated[str, typer.Argument(metavar="ID-OR-ADDRESS")],
    config: ConfigFile = None,
    as_json: AsJson = False,
    limit: Annotated[
        int, typer.Option(min=1, max=100, help="For an address: how many deliveries.")
    ] = 5,
) -> None:
    """What happened to a delivery, or to mail for an address, and what comes next."""

    async def act(homing: Homing) -> tuple[list[Story], bool]:
        if "@" not in what:
            return [await _story(homing, what)], False
        page = await homing.desk.list(Query(recipient=_address(what)), limit=limit)
        return [await _story(homing, item.id) for item in page.items], page.next is not None

    stories, more = with_homing(config, act)
    if not stories:
        raise NotFound(f"nothing is known of mail for {what}")
    if as_json:
        print_json({"items": stories, "more": more})
        return
    if "@" in what:
        typer.echo(visible(_summary(what, stories, more=more)))
    for story in stories:
        typer.echo(visible(f"{story.delivery_id}: {story.status}"))
        for line in story.lines:
            typer.echo(f"  {visible(line)}")


async def _story(homing: Homing, delivery_id: str) -> Story:
    view = view_of(homing, await homing.desk.show(delivery_id))
    return Story(delivery_id, view.status, await homing.explain(delivery_id))


def _address(text: str) -> str:
    """As it was stored: the domain in lower case, names in ASCII."""
    from homing.content.addresses import parse

    try:
        return parse(text, "address").spec
    except InvalidRequest:
        return text


def _summary(address: str, stories: list[Story], *, more: bool) -> str:
    number = len(stories)
    counted = Counter(story.status for story in stories)
    words = ", ".join(f"{count} {status}" for status, count in counted.items())
    which = f"the newest {number}" if more else f"{number} in all"
    return f"Mail for {address}, {which}: {words}."
