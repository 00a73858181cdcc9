"""`status`, `list`, `dead`, `health`: counts by status, lists, and whether all is well."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, get_args

import typer
from msgspec import Struct

from homing.app import Homing
from homing.cli.session import AsJson, ConfigFile, print_json, view_of, with_homing
from homing.cli.text import at, table
from homing.domain.delivery import State
from homing.domain.errors import InvalidRequest
from homing.domain.redaction import visible
from homing.engine.labels import ENGINE_LABELS
from homing.engine.parking import parked_routes
from homing.engine.route import Route
from homing.engine.status_words import facets_of
from homing.engine.unserved import unserved_lanes, unserved_text
from homing.engine.views import DeliveryView
from homing.ports import Cursor, Facet, Query

Limit = Annotated[int, typer.Option(min=1, max=1000, help="How many at most.")]
After = Annotated[
    str | None, typer.Option("--cursor", metavar="ID", help="Go on below this delivery.")
]


def register(app: typer.Typer) -> None:
    app.command()(status)
    app.command("list")(list_)
    app.command()(dead)
    app.command()(health)


class Count(Struct, frozen=True):
    route: str
    status: str
    count: int


def status(config: ConfigFile = None, as_json: AsJson = False) -> None:
    """The number of deliveries by route and status."""

    async def act(homing: Homing) -> tuple[list[Count], list[str], list[str], dict[str, int]]:
        liveness = homing.engine.liveness
        await liveness.look()
        parked = sorted(await parked_routes(homing.store))
        unserved = await unserved_lanes(homing.store, liveness)
        return await counts(homing), parked, sorted(liveness.workers), unserved

    found, parked, workers, unserved = with_homing(config, act)
    if as_json:
        print_json({"counts": found, "parked": parked, "workers": workers, "unserved": unserved})
        return
    rows = [(each.route, each.status, each.count) for each in found]
    typer.echo(table(("route", "status", "count"), rows))
    running = f"{len(workers)} worker process(es) running" if workers else "no worker is running"
    typer.echo(
        visible(f"\n{running}; parked routes: {', '.join(parked) or 'none'}").lstrip("\\x0a")
    )
    for lane, number in unserved.items():
        typer.echo(visible(unserved_text(lane, number)))


async def counts(homing: Homing) -> list[Count]:
    """By route and by that route's own words."""
    by_state = await homing.store.count(Query(), by=("route", "state"))
    found: list[Count] = []
    for name in sorted({route for route, _ in by_state}):
        route = homing.engine.routes.get(name)
        if route is None or route.labels is ENGINE_LABELS:
            states = [(s, by_state.get((name, s), 0)) for s in get_args(State)]
            found += [Count(name, state, number) for state, number in states if number]
            continue
        for word in words_of(route):
            query = Query(route=name, facets=facets_of(word, homing.engine.routes, name))
            number = sum((await homing.store.count(query)).values())
            found += [Count(name, word, number)] if number else []
    return found


def list_(  # noqa: PLR0913, PLR0917 - each is an option
    config: ConfigFile = None,
    as_json: AsJson = False,
    state: Annotated[str | None, typer.Option("--status", help="A status word.")] = None,
    recipient: Annotated[str | None, typer.Option(help="An address of the envelope.")] = None,
    source: Annotated[str | None, typer.Option(help="Which program submitted it.")] = None,
    key: Annotated[str | None, typer.Option(help="The idempotency key.")] = None,
    route: Annotated[str | None, typer.Option(help="The route.")] = None,
    template: Annotated[str | None, typer.Option(help="The template.")] = None,
    error_class: Annotated[str | None, typer.Option(help="The class of the last error.")] = None,
    cursor: After = None,
    limit: Limit = 50,
) -> None:
    """Deliveries, newest first."""
    query = Query(
        recipient=recipient,
        source=source,
        key=key,
        route=route,
        topic=template,
        error_class=error_class,
    )
    _list(config, query, state, cursor, limit, as_json=as_json)


def dead(
    config: ConfigFile = None, as_json: AsJson = False, cursor: After = None, limit: Limit = 50
) -> None:
    """The dead letters: what waits for a person."""
    _list(config, Query(facets=(Facet(state="failed"),)), None, cursor, limit, as_json=as_json)


def health(config: ConfigFile = None, as_json: AsJson = False) -> None:
    """Exit 0 when live workers serve all waiting work, no route is parked and no provider fails
    its check; else 1 and why."""

    async def act(homing: Homing) -> list[str]:
        liveness = homing.engine.liveness
        await liveness.look()
        problems = [] if liveness.workers else ["no worker process is alive"]
        unserved = await unserved_lanes(homing.store, liveness)
        problems += [unserved_text(lane, number) for lane, number in unserved.items()]
        for route, fact in (await parked_routes(homing.store)).items():
            problems.append(f"route {route} is parked: {(fact.value or {}).get('reason')}")
        for route, text in liveness.problems_elsewhere.items():
            problems.append(f"the provider of route {route} fails its check: {text}")
        return problems

    problems = with_homing(config, act)
    if as_json:
        print_json({"status": "ok" if not problems else "bad", "problems": problems})
    else:
        typer.echo("ok" if not problems else "\n".join(visible(p) for p in problems))
    raise typer.Exit(1 if problems else 0)


def words_of(route: Route) -> list[str]:
    """Its labels; a state that it has no word for is shown by the engine's."""
    return list(dict.fromkeys([*route.labels.words(), *get_args(State)]))


def _facets(homing: Homing, word: str, route_name: str | None) -> tuple[Facet, ...]:
    """What a status word stands for, on each route that has it."""
    routes = homing.engine.routes
    facets = facets_of(word, routes, route_name)
    if not facets:
        chosen = [route for name, route in routes.items() if route_name in (None, name)]
        tables = [route.labels for route in chosen] or [ENGINE_LABELS]
        words = sorted({word for table in tables for word in table.words()})
        raise InvalidRequest("status", f"must be one of {', '.join(words)}")
    return facets


def _list(
    config: Path | None,
    query: Query,
    word: str | None,
    below: str | None,
    limit: int,
    *,
    as_json: bool,
) -> None:
    from msgspec.structs import replace

    async def act(homing: Homing) -> tuple[list[DeliveryView], str | None]:
        asked = query if word is None else replace(query, facets=_facets(homing, word, query.route))
        cursor = None
        if below is not None:
            last = await homing.desk.show(below)
            cursor = Cursor(last.created_at_ms, last.id)
        page = await homing.desk.list(asked, cursor, limit)
        following = page.next.delivery_id if page.next is not None else None
        return [view_of(homing, item) for item in page.items], following

    views, following = with_homing(config, act)
    if as_json:
        print_json({"items": views, "next_cursor": following})
        return
    head = ("id", "route", "status", "because", "attempts", "next", "error", "to")
    typer.echo(table(head, [_row(view) for view in views]))
    if following is not None:
        typer.echo(f"(there are more: --cursor {following})", err=True)


def _row(view: DeliveryView) -> tuple[object, ...]:
    shown = ", ".join(recipient.address for recipient in view.recipients[:2])
    return (
        view.delivery_id,
        view.route,
        view.status,
        view.failed_because or "",
        view.attempts,
        "" if view.next_attempt_at_ms is None else at(view.next_attempt_at_ms),
        "" if view.state == "delivered" else view.error_class or "",
        shown + (f" and {len(view.recipients) - 2} more" if len(view.recipients) > 2 else ""),
    )
