"""`replay`, `dismiss`, `cancel`, `restore`: on one delivery, or on all that a filter chooses."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import Annotated

import typer
from msgspec import Struct

from homing.cli.desk import Actor, use_on_one, who
from homing.cli.filters import Filter
from homing.cli.options import AsJson, Place, command
from homing.cli.progress import counting
from homing.cli.session import print_json, with_homing
from homing.cli.terminal import table
from homing.engine.ops.bulk import (
    BULK_VERBS,
    PROCESS_ENDED,
    STOPPED_BY_OPERATOR,
    BulkProgress,
    BulkVerb,
    Prediction,
)
from homing.runtime.app import Homing

MEANINGS: dict[BulkVerb, str] = {
    "replay": "Try dead letters again, from their failed stage, with a new budget.",
    "dismiss": "Close dead letters; `restore` undoes it.",
    "cancel": "Withdraw open deliveries.",
    "restore": "Undo dismissals and cancellations.",
}
# Replays load the workers and the other side, so they are paced.
PER_SECOND: dict[BulkVerb, float] = {"replay": 10.0}
# How many a dry run lists for people; `--json` has all.
LISTED = 20
LOOK_EVERY_S = 0.1


def register(app: typer.Typer) -> None:
    for verb in BULK_VERBS:
        app.command(verb, help=MEANINGS[verb])(command(_verb(verb)))


class Wish(Struct, frozen=True):
    """What is to be done to which deliveries."""

    verb: BulkVerb
    chosen: Filter
    everything: bool
    per_second: float | None
    limit: int | None


def _verb(verb: BulkVerb) -> Callable[..., None]:
    def use(  # noqa: PLR0913, PLR0917 - each is an option
        place: Place,
        delivery_id: Annotated[str | None, typer.Argument(metavar="[ID]")] = None,
        reason: Annotated[
            str | None, typer.Option("--reason", "-r", help="Why; kept in the audit.")
        ] = None,
        actor: Actor = None,
        conditions: Annotated[
            list[str] | None,
            typer.Option(
                "--filter",
                metavar="NAME=VALUE",
                help="Instead of an ID: all deliveries that match; may be repeated. The names are"
                " the filters of `homing list`.",
            ),
        ] = None,
        everything: Annotated[
            bool,
            typer.Option(
                "--all",
                help="Instead of a filter: all deliveries to which the verb applies, except"
                " uncertain dead letters.",
            ),
        ] = False,
        dry_run: Annotated[
            bool, typer.Option("--dry-run", help="Only show the result for each; change nothing.")
        ] = False,
        per_second: Annotated[
            float | None,
            typer.Option(min=0.001, max=1000, help="At most this many per second."),
        ] = PER_SECOND.get(verb),
        limit: Annotated[int | None, typer.Option(min=1, help="At most this many.")] = None,
        as_json: AsJson = False,
    ) -> None:
        if (delivery_id is not None) + bool(conditions) + everything != 1:
            raise typer.BadParameter("give an ID, --filter or --all")
        if reason is None and not dry_run:
            raise typer.BadParameter("Missing option '--reason' / '-r'")
        signed = who(actor, reason or "dry run")
        if delivery_id is not None:
            if dry_run:
                raise typer.BadParameter("--dry-run is for --filter and --all")
            use_on_one(place, verb, delivery_id, signed, as_json=as_json)
            return
        wish = Wish(verb, Filter.of(conditions or ()), everything, per_second, limit)
        if dry_run:
            _predict(place, wish, as_json=as_json)
        else:
            _act(place, wish, signed, as_json=as_json)

    return use


def _act(place: Place, wish: Wish, signed: dict[str, str], *, as_json: bool) -> None:
    started: list[BulkProgress] = []

    async def act(homing: Homing) -> None:
        progress = await homing.bulk.start(
            wish.verb,
            await wish.chosen.query(homing),
            everything=wish.everything,
            per_second=wish.per_second,
            limit=wish.limit,
            actor=signed["actor"],
            reason=signed["reason"],
        )
        started.append(progress)
        finished = asyncio.ensure_future(homing.bulk.finished())
        with counting(wish.verb, min(progress.matched, wish.limit or progress.matched)) as show:
            while not finished.done():
                await asyncio.wait([finished], timeout=LOOK_EVERY_S)
                show(progress.done + progress.refused)

    interrupted = False
    try:
        with_homing(place, act)
    except KeyboardInterrupt:
        interrupted = True
    for progress in started:
        _report(progress, as_json=as_json)
    if interrupted or started[0].state != "done":
        raise typer.Exit(1)


def _report(progress: BulkProgress, *, as_json: bool) -> None:
    if as_json:
        print_json(progress)
        return
    refused = f", {progress.refused} refused" if progress.refused else ""
    because = progress.stopped_because
    if progress.state == "stopped" and because not in (STOPPED_BY_OPERATOR, PROCESS_ENDED):
        because = f"{because} came back"
    ended = f"; {progress.state}: {because}" if because else ""
    typer.echo(f"{progress.verb}: {progress.done} of {progress.matched} done{refused}{ended}")
    _tell_left_out(progress.uncertain_left_out)


def _tell_left_out(number: int) -> None:
    if number:
        typer.echo(
            f"{number} uncertain left out because they may have arrived: ask the provider, then use"
            " an ID or --filter because=uncertain",
            err=True,
        )


class Item(Struct, frozen=True):
    """What the verb would do to one delivery."""

    delivery_id: str
    status: str
    becomes: str | None
    refused_because: str | None


def _predict(place: Place, wish: Wish, *, as_json: bool) -> None:
    async def act(homing: Homing) -> tuple[int, int, list[Item]]:
        query = await wish.chosen.query(homing)
        matched = await homing.bulk.count(wish.verb, query, everything=wish.everything)
        items: list[Item] = []
        with counting(wish.verb, min(matched, wish.limit or matched)) as show:
            async for one in homing.bulk.predict(
                wish.verb, query, everything=wish.everything, limit=wish.limit
            ):
                items.append(_item(homing, one))
                show(len(items))
        return matched, await homing.bulk.count_left_out(wish.verb, query), items

    matched, uncertain, items = with_homing(place, act)
    if as_json:
        found = {"matched": matched, "uncertain_left_out": uncertain, "items": items}
        print_json({"verb": wish.verb, "dry_run": True, **found})
        return
    becomes = Counter(item.becomes or "refused" for item in items)
    counted = ", ".join(f"{number} {word}" for word, number in becomes.most_common())
    typer.echo(
        f"{wish.verb}: {matched} matched; nothing was changed"
        + f"; would be: {counted}" * bool(items)
    )
    if items:
        rows = [(i.delivery_id, i.status, i.becomes or i.refused_because) for i in items[:LISTED]]
        typer.echo(table(("id", "status", "would be"), rows))
    if len(items) > LISTED:
        typer.echo(f"(and {len(items) - LISTED} more; --json has all)", err=True)
    _tell_left_out(uncertain)


def _item(homing: Homing, one: Prediction) -> Item:
    route = homing.engine.routes.get(one.delivery.route)
    if route is None or one.after is None:
        status = one.delivery.state if route is None else route.word(one.delivery)
        return Item(one.delivery.id, status, None, one.refused_because)
    after = one.after
    becomes = "cancelled" if one.is_cancelled else route.word(after)
    if after.failed_because == "uncertain" and one.delivery.state != "failed":
        becomes = f"{becomes} (uncertain)"
    return Item(one.delivery.id, route.word(one.delivery), becomes, None)
