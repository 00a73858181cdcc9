"""`homing events dlq`: the dead letters on the command line."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Annotated, Any, TypeVar

import msgspec
import typer

from homing import Homing
from homing.domain.redaction import visible
from homing.plugins import Service, load_plugin, with_service
from homing.stores.layout import Record, iso_utc_or_none
from homing_systems.events.dead_letters import (
    get_dlq_event_detail,
    list_dlq_events,
    replay_dlq_event,
)

T = TypeVar("T")

Config = Annotated[
    Path | None, typer.Option(help="The settings file; by default homing.toml, if it exists.")
]
StoreUrl = Annotated[
    str | None, typer.Option("--store", metavar="URL", help="This store instead of the set one.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
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
    found = _with_homing(lambda homing: list_dlq_events(homing, limit), config, store)
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
    """One event as a row of the outbox, with its handlers and its attempts."""
    found = _with_homing(lambda homing: get_dlq_event_detail(homing, event_id), config, store)
    if as_json:
        _print_json(found)
        return
    for name, value in found["event"].items():
        text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
        typer.echo(visible(f"{name + ':':<17} {text}"))
    for row in found["handlers"]:
        typer.echo(visible(f"handler:          {_line(row)}"))
    for attempt in found["attempts"]:
        typer.echo(visible(f"attempt:          {_attempt_line(attempt)}"))


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

    def act(homing: Homing) -> Awaitable[Record]:
        return replay_dlq_event(homing, event_id, new_generation=generation, replayed_by=by)

    row = _with_homing(act, config, store)
    if as_json:
        _print_json(row)
        return
    typer.echo(f"{row['event_id']} is {row['status']} with generation {row['generation']}")


def _line(row: Record) -> str:
    return (
        f"{row['event_id']}  {row['event_type']}  {row['source'] or '-'} -> {row['target'] or '-'}"
        f"  {row['handler_name'] or '-'}  {row['status']}  attempts {row['attempts']}"
        f"  generation {row['generation']}  {row['last_error'] or ''}"
    )


def _attempt_line(attempt: dict[str, Any]) -> str:
    at = iso_utc_or_none(attempt["ended_at_ms"] or attempt["scheduled_for_ms"])
    return (
        f"{attempt['handler_name'] or '-'}  cycle {attempt['cycle']}  number {attempt['number']}"
        f"  {attempt['status']}  {at or '-'}  {attempt['detail'] or attempt['error_class'] or ''}"
    )


def _with_homing(
    act: Callable[[Homing], Awaitable[T]], config: Path | None, store: str | None
) -> T:
    def with_it(service: Service[Any]) -> Awaitable[T]:
        return act(service.homing)

    return with_service(load_plugin("events"), with_it, config=config, store=store, must_exist=True)


def _print_json(value: object) -> None:
    sys.stdout.buffer.write(msgspec.json.format(msgspec.json.encode(value), indent=2) + b"\n")
    sys.stdout.flush()
