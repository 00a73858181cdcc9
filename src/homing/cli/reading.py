"""`status`, `list`, `show`, `why`, `attempts`, `dead`, `health`: what stands where, and why."""

from __future__ import annotations

from typing import Annotated

import typer

from homing.app import Homing
from homing.cli.session import AsJson, ConfigFile, print_json, with_homing
from homing.cli.text import at, table
from homing.domain.delivery import Delivery
from homing.domain.errors import InvalidRequest, NotFound
from homing.domain.redaction import visible
from homing.engine.views import AttemptView, attempt_view, delivery_view
from homing.ports import Facet, Page, Query

Limit = Annotated[int, typer.Option(min=1, max=1000, help="At most so many.")]
DeliveryId = Annotated[str, typer.Argument(metavar="ID")]


def register(app: typer.Typer) -> None:
    app.command()(status)
    app.command("list")(list_)
    app.command()(show)
    app.command()(why)
    app.command()(attempts)
    app.command()(dead)
    app.command()(health)


def status(config: ConfigFile = None, as_json: AsJson = False) -> None:
    """How many deliveries stand where, on each route."""

    async def act(homing: Homing) -> tuple[dict[tuple[str, ...], int], list[str], list[str]]:
        counts = await homing.store.count(Query(), by=("route", "state"))
        parked = [fact.key for fact in await homing.store.facts("parked")]
        workers = [fact.key for fact in await homing.store.facts("worker")]
        return counts, parked, workers

    counts, parked, workers = with_homing(config, act)
    rows = [(route, state, number) for (route, state), number in sorted(counts.items())]
    if as_json:
        items = [{"route": r, "state": s, "count": n} for r, s, n in rows]
        print_json({"counts": items, "parked": parked, "workers": workers})
        return
    typer.echo(table(("route", "state", "count"), rows))
    typer.echo(f"\n{len(workers)} worker process(es); parked routes: {', '.join(parked) or 'none'}")


def list_(  # noqa: PLR0913, PLR0917 - each is an option
    config: ConfigFile = None,
    as_json: AsJson = False,
    state: Annotated[str | None, typer.Option("--status", help="A status word.")] = None,
    recipient: Annotated[str | None, typer.Option(help="An address of the envelope.")] = None,
    source: Annotated[str | None, typer.Option(help="Who handed it in.")] = None,
    route: Annotated[str | None, typer.Option(help="The route.")] = None,
    error_class: Annotated[str | None, typer.Option(help="The class of the last error.")] = None,
    limit: Limit = 50,
) -> None:
    """Deliveries, newest first."""

    async def act(homing: Homing) -> Page:
        query = Query(
            recipient=recipient,
            source=source,
            route=route,
            error_class=error_class,
            facets=None if state is None else _facets(homing, state),
        )
        return await homing.desk.list(query, limit=limit)

    _print_page(config, with_homing(config, act), as_json=as_json)


def dead(config: ConfigFile = None, as_json: AsJson = False, limit: Limit = 50) -> None:
    """The dead letters: what waits for a person."""

    async def act(homing: Homing) -> Page:
        return await homing.desk.list(Query(facets=(Facet(state="failed"),)), limit=limit)

    _print_page(config, with_homing(config, act), as_json=as_json)


def show(delivery_id: DeliveryId, config: ConfigFile = None, as_json: AsJson = False) -> None:
    """One delivery, whole."""

    async def act(homing: Homing) -> object:
        delivery = await homing.desk.show(delivery_id)
        return delivery_view(delivery, homing.engine.routes.get(delivery.route))

    view = with_homing(config, act)
    if as_json:
        print_json(view)
        return
    import msgspec

    for name, value in msgspec.to_builtins(view).items():
        if value not in (None, [], {}, ""):
            shown = at(value) if name.endswith("_at_ms") else visible(str(value))
            typer.echo(f"{name.removesuffix('_ms'):<18} {shown}")


def why(
    what: Annotated[str, typer.Argument(metavar="ID-OR-ADDRESS")],
    config: ConfigFile = None,
    as_json: AsJson = False,
    limit: Annotated[int, typer.Option(min=1, max=100, help="For an address: so many.")] = 5,
) -> None:
    """What happened to a delivery, or to mail for an address, and what comes next."""

    async def act(homing: Homing) -> dict[str, list[str]]:
        if "@" not in what:
            return {what: await homing.explain(what)}
        page = await homing.desk.list(Query(recipient=what), limit=limit)
        return {item.id: await homing.explain(item.id) for item in page.items}

    explained = with_homing(config, act)
    if not explained:
        raise NotFound(f"nothing was ever handed in for {what}")
    if as_json:
        items = [{"delivery_id": name, "lines": lines} for name, lines in explained.items()]
        print_json({"items": items})
        return
    for name, lines in explained.items():
        typer.echo(f"{name}")
        for line in lines:
            typer.echo(f"  {visible(line)}")


def attempts(delivery_id: DeliveryId, config: ConfigFile = None, as_json: AsJson = False) -> None:
    """Every attempt of a delivery, the coming one last."""

    async def act(homing: Homing) -> list[AttemptView]:
        return [attempt_view(attempt) for attempt in await homing.desk.attempts(delivery_id)]

    views = with_homing(config, act)
    if as_json:
        print_json({"items": views})
        return
    head = ("no", "stage", "phase", "status", "when", "code", "what")
    rows = [
        (
            view.number,
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


def health(config: ConfigFile = None, as_json: AsJson = False) -> None:
    """Exit 0 when a worker is alive and no route is parked; 1 and the reasons otherwise."""

    async def act(homing: Homing) -> list[str]:
        engine = homing.engine
        await engine.liveness.look()
        problems = [] if engine.liveness.alive else ["no worker process is alive"]
        for fact in await homing.store.facts("parked"):
            reason = (fact.value or {}).get("reason")
            problems.append(f"route {fact.key} is parked: {reason}")
        return problems

    problems = with_homing(config, act)
    if as_json:
        print_json({"status": "ok" if not problems else "bad", "problems": problems})
    else:
        typer.echo("ok" if not problems else "\n".join(visible(p) for p in problems))
    raise typer.Exit(1 if problems else 0)


def _facets(homing: Homing, word: str) -> tuple[Facet, ...]:
    facets: dict[Facet, None] = {}
    words: set[str] = set()
    for route in homing.engine.routes.values():
        stages = tuple(stage.name for stage in route.plan.stages)
        facets.update(dict.fromkeys(route.labels.facets(word, stages)))
        words.update(route.labels.words())
    if not facets:
        raise InvalidRequest("status", f"must be one of {', '.join(sorted(words))}")
    return tuple(facets)


def _print_page(config: object, page: Page, *, as_json: bool) -> None:
    del config
    if as_json:
        print_json({"items": [delivery_view(item, None) for item in page.items]})
        return
    head = ("id", "route", "status", "because", "attempts", "next", "error", "to")
    typer.echo(table(head, [_row(item) for item in page.items]))
    if page.next is not None:
        typer.echo("(there are more)", err=True)


def _row(item: Delivery) -> tuple[object, ...]:
    failure = item.failure
    return (
        item.id,
        item.route,
        item.state,
        item.failed_because or "",
        item.attempts,
        at(item.due_at_ms) if item.state == "pending" else "",
        failure.error_class if failure and item.state != "delivered" else "",
        ", ".join(r.address for r in item.recipients[:2])
        + ("…" if len(item.recipients) > 2 else ""),
    )
