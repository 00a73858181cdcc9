"""`status`, `health`: counts by status, and whether all is well."""

from __future__ import annotations

from typing import get_args

import typer
from msgspec import Struct

from homing.cli.options import AsJson, Place, command
from homing.cli.session import print_json, with_homing
from homing.cli.terminal import STATE_COLORS, Colored, at, colored, table
from homing.domain.delivery import State
from homing.engine.ops.bounded import count_requests
from homing.engine.ops.delivery_filter import facets_of
from homing.engine.ops.inspecting import oldest_due_ms
from homing.engine.ops.labels import ENGINE_LABELS
from homing.engine.process.pausing import paused_routes
from homing.engine.process.store_report import store_warnings, why_not_writable
from homing.engine.process.unserved import unserved_queues, unserved_text
from homing.engine.route import Route
from homing.ports import Query
from homing.runtime.app import Homing


def register(app: typer.Typer) -> None:
    app.command()(command(status))
    app.command()(command(health))


class Count(Struct, frozen=True):
    route: str
    status: str
    count: int


class Overview(Struct, frozen=True):
    """What `status` tells, and `watch` again and again."""

    counts: list[Count]
    paused: list[str]
    workers: list[str]
    unserved: dict[str, int]
    oldest_due_at_ms: int | None


def status(place: Place, as_json: AsJson = False) -> None:
    """The number of deliveries by route and status."""
    found = with_homing(place, overview)
    if as_json:
        print_json(found)
        return
    for line in overview_lines(found):
        typer.echo(line)


async def overview(homing: Homing) -> Overview:
    liveness = homing.engine.liveness
    await liveness.look()
    await homing.engine.pausing.refresh()
    return Overview(
        await counts(homing),
        sorted(await paused_routes(homing.store)),
        sorted(liveness.workers),
        await unserved_queues(homing.store, liveness),
        await oldest_due_ms(homing.engine),
    )


def overview_lines(found: Overview) -> list[str]:
    rows = [
        (each.route, Colored(each.status, STATE_COLORS.get(each.status)), each.count)
        for each in found.counts
    ]
    number = len(found.workers)
    running = f"{number} worker process(es) running" if number else "no worker is running"
    paused = colored(", ".join(found.paused) or "none", "red" if found.paused else None)
    unserved = [unserved_text(queue, waiting) for queue, waiting in found.unserved.items()]
    due_ms = found.oldest_due_at_ms
    late = [] if due_ms is None else [f"the oldest one has been due since {at(due_ms)}"]
    return [
        table(("route", "status", "count"), rows),
        "",
        f"{colored(running, None if number else 'yellow')}; paused routes: {paused}",
        *(colored(line, "red") for line in unserved),
        *late,
    ]


async def counts(homing: Homing) -> list[Count]:
    """By route and by that route's own words."""
    by_state = await count_requests(homing.store)
    found: list[Count] = []
    for name in sorted({route for route, _ in by_state}):
        route = homing.engine.routes.get(name)
        if route is None or route.labels is ENGINE_LABELS:
            states = [(s, by_state.get((name, s), 0)) for s in get_args(State)]
            found += [Count(name, state, number) for state, number in states if number]
            continue
        for word in words_of(route):
            facets = facets_of(word, homing.engine.routes, name)
            query = Query(route=name, facets=facets, top_only=True)
            number = sum((await homing.store.count(query)).values())
            found += [Count(name, word, number)] if number else []
    return found


def health(place: Place, as_json: AsJson = False) -> None:
    """Exit with 0 if all is well, else with 1 and the reason.

    All is well if the store can be written, live workers serve all waiting work, no route is
    paused and no provider fails.
    """
    problems, warnings = with_homing(place, _problems_and_warnings)
    if as_json:
        status = "bad" if problems else "degraded" if warnings else "ok"
        print_json({"status": status, "problems": problems, "warnings": warnings})
    else:
        lines = [colored(text, "red") for text in problems]
        lines += [colored(text, "yellow") for text in warnings]
        typer.echo("\n".join(lines) or colored("ok", "green"))
    raise typer.Exit(1 if problems else 0)


async def _problems_and_warnings(homing: Homing) -> tuple[list[str], list[str]]:
    store, engine = homing.store, homing.engine
    unwritable = await why_not_writable(store, engine.clock)
    # Heartbeats are writes: while there are none, it is unknown who is alive.
    problems = [unwritable] if unwritable is not None else await _serving_problems(homing)
    for route, fact in (await paused_routes(store)).items():
        problems.append(f"route {route} is paused: {(fact.value or {}).get('reason')}")
    return problems, await store_warnings(store, engine.clock)


async def _serving_problems(homing: Homing) -> list[str]:
    liveness = homing.engine.liveness
    await liveness.look()
    unserved = await unserved_queues(homing.store, liveness)
    return [
        *([] if liveness.workers else ["no worker process is alive"]),
        *(unserved_text(queue, number) for queue, number in unserved.items()),
        *(
            f"the provider of route {route} fails: {text}"
            for route, text in liveness.problems_elsewhere.items()
        ),
    ]


def words_of(route: Route) -> list[str]:
    """Its labels; a state that it has no word for is shown by the engine's."""
    return list(dict.fromkeys([*route.labels.words(), *get_args(State)]))
