"""`list`, `dead`, `errors`: deliveries by filter, and dead letters by their error."""

from __future__ import annotations

from typing import Annotated

import typer
from msgspec import Struct

from homing.app import Homing
from homing.cli.filters import DeadFilter, Filter
from homing.cli.options import AsJson, Place, command
from homing.cli.session import WrongUse, print_json, view_of, views_of, with_homing
from homing.cli.terminal import STATE_COLORS, Colored, at, table
from homing.engine.views import DeliveryView
from homing.ports import Cursor

Limit = Annotated[int, typer.Option(min=1, max=1000, help="How many at most.")]
After = Annotated[
    str | None, typer.Option("--cursor", metavar="ID", help="Go on below this delivery.")
]
Before = Annotated[
    str | None, typer.Option("--above", metavar="ID", help="Go back above this delivery.")
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
FIRST_TO_GO = ("attempts", "route", "next", "handler", "key", "because", "created", "error")


def register(app: typer.Typer) -> None:
    app.command("list")(command(list_))
    app.command()(command(dead))
    app.command()(command(errors))


def list_(
    place: Place,
    chosen: Filter,
    cursor: After = None,
    above: Before = None,
    limit: Limit = 50,
    as_json: AsJson = False,
) -> None:
    """Deliveries, newest first."""
    _list(place, chosen, _place_of(cursor, above), limit, as_json=as_json)


def dead(
    place: Place,
    chosen: DeadFilter,
    cursor: After = None,
    above: Before = None,
    limit: Limit = 50,
    as_json: AsJson = False,
) -> None:
    """The dead letters: what waits for a person."""
    _list(place, chosen, _place_of(cursor, above), limit, as_json=as_json)


class Group(Struct, frozen=True):
    """Dead letters with the same error."""

    count: int
    route: str
    error_class: str
    failed_because: str
    newest: DeliveryView | None


def errors(place: Place, chosen: DeadFilter, limit: Limit = 50, as_json: AsJson = False) -> None:
    """The dead letters grouped by their error, the largest group first."""

    async def act(homing: Homing) -> list[Group]:
        return [
            Group(
                group.count,
                group.route,
                group.error_class,
                group.failed_because,
                None if group.newest is None else await view_of(homing, group.newest),
            )
            for group in await homing.desk.errors(await chosen.query(homing), limit)
        ]

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
            "" if each.newest is None else each.newest.delivery_id,
            "" if each.newest is None else each.newest.last_error or "",
        )
        for each in groups
    ]
    head = ("count", "route", "error", "because", "newest", "what it said")
    typer.echo(table(head, rows, first_to_go=("route", "because")))


def _list(
    place: Place, chosen: DeadFilter, seen: tuple[str, bool] | None, limit: int, *, as_json: bool
) -> None:
    async def act(homing: Homing) -> tuple[list[DeliveryView], str | None, str | None]:
        query = await chosen.query(homing)
        cursor = None
        if seen is not None:
            one = await homing.desk.show(seen[0])
            cursor = Cursor(one.created_at_ms, one.id, newer=seen[1])
        page = await homing.desk.list(query, cursor, limit)
        ends = [None if end is None else end.delivery_id for end in (page.next, page.previous)]
        return await views_of(homing, page.items), ends[0], ends[1]

    views, following, previous = with_homing(place, act)
    if as_json:
        print_json({"items": views, "next_cursor": following, "previous_cursor": previous})
        return
    typer.echo(table(HEAD, [_row(view) for view in views], first_to_go=FIRST_TO_GO))
    if following is not None:
        typer.echo(f"(there are more: --cursor {following})", err=True)


def _place_of(below: str | None, above: str | None) -> tuple[str, bool] | None:
    """The delivery that the page lies next to, and whether the newer side is meant."""
    if below is not None and above is not None:
        raise WrongUse("--above: is given beside --cursor; give one of them")
    if above is not None:
        return above, True
    return None if below is None else (below, False)


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
        return view.template_id or ""
    shown = ", ".join(recipient.address for recipient in view.recipients[:2])
    more = len(view.recipients) - 2
    return f"{shown} and {more} more" if more > 0 else shown
