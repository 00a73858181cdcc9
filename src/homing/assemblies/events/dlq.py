"""`homing events dlq`: the dead letters of the outbox, listed, shown and replayed in place."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Annotated, Any, TypeVar

import msgspec
import typer

from homing.app import Homing
from homing.assemblies.events.record import SHAPE
from homing.assemblies.events.route import replay as replay_event
from homing.assembly import Service
from homing.build import with_service
from homing.domain.delivery import Delivery
from homing.domain.errors import NotFound
from homing.domain.redaction import visible
from homing.engine.alerts import WEEK_MS, failed_since
from homing.engine.handler_names import names_of
from homing.engine.handlers import EVENT_ROUTE
from homing.installed import load
from homing.ports import Facet, Query
from homing.stores.shape import Record, Stored

T = TypeVar("T")

Config = Annotated[Path | None, typer.Option(help="The settings file; homing.toml if it is there.")]
StoreUrl = Annotated[
    str | None, typer.Option("--store", metavar="URL", help="This store instead of the set one.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]
EventId = Annotated[str, typer.Argument(metavar="EVENT_ID")]

dlq = typer.Typer(
    help="Dead letters: events whose status is failed and that are not deleted.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@dlq.command("list")
def list_events(
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="At most this many.")] = 50,
    config: Config = None,
    store: StoreUrl = None,
    *,
    as_json: AsJson = False,
) -> None:
    """The newest dead letters, and how many there are of the last seven days."""

    async def act(homing: Homing) -> dict[str, Any]:
        query = Query(route=EVENT_ROUTE, facets=(Facet(state="failed"),), top_only=True)
        page = await homing.desk.list(query, limit=limit)
        since_ms = homing.engine.clock.now_ms() - WEEK_MS
        return {
            "events": [await row_of(homing, delivery) for delivery in page.items],
            "failed_in_7_days": await failed_since(homing.store, EVENT_ROUTE, since_ms),
        }

    found = _with_homing(act, config, store)
    if as_json:
        _print_json(found)
        return
    for row in found["events"]:
        typer.echo(visible(_line(row)))
    typer.echo(f"failed in the last 7 days: {found['failed_in_7_days']}", err=True)


@dlq.command()
def show(
    event_id: EventId, config: Config = None, store: StoreUrl = None, *, as_json: AsJson = False
) -> None:
    """One event as a row of the outbox, with its attempts and what its handlers did."""

    async def act(homing: Homing) -> dict[str, Any]:
        event = await homing.desk.show(event_id)
        if event.route != EVENT_ROUTE:
            raise NotFound(f"no event {event_id}")
        children = Query(route=EVENT_ROUTE, parent_id=event.id)
        rows = (await homing.desk.list(children, limit=1000)).items
        return {
            "event": await row_of(homing, event),
            "handlers": [await row_of(homing, row) for row in rows],
            "attempts": [
                attempt for row in (event, *rows) for attempt in await homing.desk.attempts(row.id)
            ],
        }

    found = _with_homing(act, config, store)
    if as_json:
        _print_json(found)
        return
    for name, value in found["event"].items():
        text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
        typer.echo(visible(f"{name + ':':<17} {text}"))
    for row in found["handlers"]:
        typer.echo(visible(f"handler:          {_line(row)}"))


@dlq.command()
def replay(
    event_id: EventId,
    generation: Annotated[
        int, typer.Option(min=0, help="Handle it with code of this generation; 0: of any.")
    ],
    by: Annotated[str, typer.Option("--by", metavar="WHO", help="Kept in failure_history.")],
    config: Config = None,
    store: StoreUrl = None,
    *,
    as_json: AsJson = False,
) -> None:
    """Try a dead letter again, in its own row, with the finished cycle kept."""

    async def act(homing: Homing) -> Record:
        after = await replay_event(homing.desk, event_id, new_generation=generation, replayed_by=by)
        return await row_of(homing, after)

    row = _with_homing(act, config, store)
    if as_json:
        _print_json(row)
        return
    typer.echo(f"{row['event_id']} is {row['status']} with generation {row['generation']}")


async def row_of(homing: Homing, delivery: Delivery) -> Record:
    """The row of `core.outbox`, with the handler's name and the size of the history."""
    content = await homing.store.content(delivery.id)
    if content is None:
        raise NotFound(f"no event {delivery.id}")
    row = SHAPE.record(Stored(delivery, content, ())) or {}
    history = row["failure_history"]
    return {
        **row,
        "handler_name": (await names_of(homing.store, [delivery])).get(delivery.id),
        "history_entries": len(history),
        "history_bytes": len(msgspec.json.encode(history)) if history else 0,
    }


def _line(row: Record) -> str:
    target = row["target"] or "-"
    return (
        f"{row['event_id']}  {row['event_type']}  {row['source']} -> {target}"
        f"  {row['handler_name'] or '-'}  {row['status']}  attempts {row['attempts']}"
        f"  generation {row['generation']}  {row['last_error'] or ''}"
    )


def _with_homing(
    act: Callable[[Homing], Awaitable[T]], config: Path | None, store: str | None
) -> T:
    def with_it(service: Service[Any]) -> Awaitable[T]:
        return act(service.homing)

    return with_service(load("events"), with_it, config=config, store=store, must_exist=True)


def _print_json(value: object) -> None:
    sys.stdout.buffer.write(msgspec.json.format(msgspec.json.encode(value), indent=2) + b"\n")
    sys.stdout.flush()
