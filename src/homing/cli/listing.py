"""`list`, `failures`, `search`: deliveries by filter or text, and dead letters by their error."""

from __future__ import annotations

import sys
from typing import Annotated

import typer
from msgspec import Struct

from homing.cli.options import AsJson, Place, command
from homing.cli.session import WrongUse, print_json, print_raw, view_of, views_of, with_homing
from homing.cli.terminal import STATE_COLORS, Colored, at, table
from homing.domain.errors import NotFound
from homing.engine.ops.delivery_filter import DeliveryFilter
from homing.engine.ops.failure_groups import FailureGroup, Trend
from homing.engine.ops.views import DeliveryView
from homing.ports import Cursor
from homing.runtime.app import Homing

SHOWN = 50
EXPORT_PAGE = 500
FORMATS = ("table", "json", "csv")
Limit = Annotated[
    int | None, typer.Option(min=1, help=f"At most this many; {SHOWN} by default, all for CSV.")
]
Format = Annotated[
    str | None, typer.Option("--format", help="table, json or csv; CSV contains all that match.")
]
After = Annotated[
    str | None, typer.Option("--after", metavar="ID", help="The page after this delivery.")
]
Before = Annotated[
    str | None, typer.Option("--before", metavar="ID", help="The page before this delivery.")
]
HEAD = (
    "id",
    "created",
    "route",
    "status",
    "because",
    "attempts",
    "next",
    "error",
    "key",
    "handler",
    "to",
)
GROUP_HEAD = (
    *("count", "route", "error", "because", "trend", "first seen", "last seen", "newest"),
    *("came back", "what it said"),
)
FIRST_TO_GO = ("attempts", "route", "next", "handler", "key", "because", "created", "error")


def register(app: typer.Typer) -> None:
    app.command("list")(command(list_))
    app.command()(command(failures))
    app.command()(command(search))


def list_(
    place: Place,
    chosen: DeliveryFilter,
    after: After = None,
    before: Before = None,
    limit: Limit = None,
    format_: Format = None,
    as_json: AsJson = False,
) -> None:
    """Deliveries by filter, newest first."""
    if _is_csv(format_):
        _export(place, chosen, _place_of(after, before), limit)
    else:
        as_json = as_json or format_ == "json"
        _list(place, chosen, _place_of(after, before), limit or SHOWN, as_json=as_json)


def search(
    place: Place,
    text: Annotated[str, typer.Argument(metavar="TEXT")],
    limit: Limit = None,
    as_json: AsJson = False,
) -> None:
    """Find deliveries by id, recipient, key or error."""

    async def act(homing: Homing) -> tuple[str, list[DeliveryView], bool]:
        found = await homing.search(text, limit or SHOWN)
        return found.matched, await views_of(homing, found.deliveries), found.more

    matched, views, more = with_homing(place, act)
    if as_json:
        print_json({"matched": matched, "items": views, "more": more})
        return
    if not views:
        raise NotFound(f"nothing found for {text!r}")
    typer.echo(table(HEAD, [_row(view) for view in views], first_to_go=FIRST_TO_GO))
    if more:
        typer.echo("(there are more: --limit)", err=True)


class Group(Struct, frozen=True, kw_only=True):
    """Dead letters with the same error."""

    count: int
    route: str
    error_class: str
    failed_because: str
    newest: DeliveryView | None
    first_seen_at_ms: int | None
    last_seen_at_ms: int | None
    trend: Trend
    last_hour: int
    hour_before: int
    came_back_at_ms: int | None
    came_back_delivery_id: str | None


def failures(
    place: Place, chosen: DeliveryFilter, limit: Limit = None, as_json: AsJson = False
) -> None:
    """Dead letters grouped by their error, largest group first."""

    async def act(homing: Homing) -> list[Group]:
        found = await homing.ops.failures(chosen, limit or SHOWN)
        return [await _group(homing, group) for group in found]

    groups = with_homing(place, act)
    if as_json:
        print_json({"items": groups})
        return
    rows = [
        (
            each.count,
            each.route,
            each.error_class,
            each.failed_because,
            each.trend,
            at(each.first_seen_at_ms),
            at(each.last_seen_at_ms),
            "" if each.newest is None else each.newest.delivery_id,
            "" if each.came_back_at_ms is None else at(each.came_back_at_ms),
            "" if each.newest is None else each.newest.last_error or "",
        )
        for each in groups
    ]
    typer.echo(table(GROUP_HEAD, rows, first_to_go=("route", "first seen", "because", "last seen")))


async def _group(homing: Homing, group: FailureGroup) -> Group:
    return Group(
        count=group.count,
        route=group.route,
        error_class=group.error_class,
        failed_because=group.failed_because,
        newest=None if group.newest is None else await view_of(homing, group.newest),
        first_seen_at_ms=group.first_seen_at_ms,
        last_seen_at_ms=group.last_seen_at_ms,
        trend=group.trend,
        last_hour=group.last_hour,
        hour_before=group.hour_before,
        came_back_at_ms=group.came_back_at_ms,
        came_back_delivery_id=group.came_back_delivery_id,
    )


def _is_csv(wanted: str | None) -> bool:
    if wanted not in (None, *FORMATS):
        raise WrongUse(f"--format: {wanted!r} is not known; use one of {', '.join(FORMATS)}")
    return wanted == "csv"


def _export(
    place: Place, chosen: DeliveryFilter, seen: tuple[str, bool] | None, limit: int | None
) -> None:
    """Everything that the filter chooses, unless there is a limit, page by page."""

    async def act(homing: Homing) -> None:
        from homing.engine.ops.exporting import csv_head, csv_rows

        cursor = await _cursor(homing, seen)
        left = sys.maxsize if limit is None else limit
        print_raw(csv_head())
        while left > 0:
            page = await homing.ops.list(chosen, cursor, min(left, EXPORT_PAGE))
            print_raw(csv_rows(await views_of(homing, page.items)))
            left -= len(page.items)
            if page.next is None:
                break
            cursor = page.next

    with_homing(place, act)


async def _cursor(homing: Homing, seen: tuple[str, bool] | None) -> Cursor | None:
    if seen is None:
        return None
    one = await homing.ops.show(seen[0])
    return Cursor(one.created_at_ms, one.id, newer=seen[1])


def _list(
    place: Place,
    chosen: DeliveryFilter,
    seen: tuple[str, bool] | None,
    limit: int,
    *,
    as_json: bool,
) -> None:
    async def act(homing: Homing) -> tuple[list[DeliveryView], str | None, str | None]:
        page = await homing.ops.list(chosen, await _cursor(homing, seen), limit)
        ends = [None if end is None else end.delivery_id for end in (page.next, page.previous)]
        return await views_of(homing, page.items), ends[0], ends[1]

    views, following, previous = with_homing(place, act)
    if as_json:
        print_json({"items": views, "next_cursor": following, "previous_cursor": previous})
        return
    typer.echo(table(HEAD, [_row(view) for view in views], first_to_go=FIRST_TO_GO))
    if following is not None:
        typer.echo(f"(there are more: --after {following})", err=True)


def _place_of(after: str | None, before: str | None) -> tuple[str, bool] | None:
    """The delivery that the page lies next to, and whether the newer side is meant."""
    if after is not None and before is not None:
        raise WrongUse("--before cannot be combined with --after")
    if before is not None:
        return before, True
    return None if after is None else (after, False)


def _row(view: DeliveryView) -> tuple[object, ...]:
    return (
        view.delivery_id,
        at(view.created_at_ms),
        view.route,
        Colored(view.status, STATE_COLORS.get(view.state)),
        view.failed_because or "",
        view.attempts,
        "" if view.next_attempt_at_ms is None else at(view.next_attempt_at_ms),
        "" if view.state == "delivered" else view.error_class or "",
        view.idempotency_key or "",
        view.handler or "",
        _to(view),
    )


def _to(view: DeliveryView) -> str:
    """The recipients; of an event its type, of a job its name."""
    if not view.recipients:
        return view.topic or ""
    shown = ", ".join(recipient.address for recipient in view.recipients[:2])
    more = len(view.recipients) - 2
    return f"{shown} and {more} more" if more > 0 else shown
