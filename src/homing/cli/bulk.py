"""A verb on all deliveries that a filter selects: its options, dry run, progress and report."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Annotated

import typer
from msgspec import Struct

from homing.cli.filters import filter_of_conditions
from homing.cli.options import OptionGroup, Place
from homing.cli.progress import counting
from homing.cli.session import print_json, with_homing
from homing.cli.terminal import table
from homing.engine.ops.bulk import PROCESS_ENDED, STOPPED_BY_OPERATOR, BulkProgress, Prediction
from homing.engine.ops.delivery_filter import DeliveryFilter
from homing.engine.ops.verbs import BULK, BulkVerb
from homing.runtime.app import Homing

# How many a dry run lists for people; `--json` has all.
LISTED = 20
LOOK_EVERY_S = 0.1


class BulkOptions(OptionGroup, frozen=True, kw_only=True):
    """Instead of an ID: which deliveries, and how."""

    conditions: Annotated[
        list[str] | None,
        typer.Option(
            "--filter",
            metavar="NAME=VALUE",
            help="Instead of an ID: all deliveries that match; may be repeated. The names are"
            " the filters of `homing list`.",
        ),
    ] = None
    everything: Annotated[
        bool | None,
        typer.Option(
            "--all",
            help="Instead of a filter: all deliveries to which the verb applies, except"
            " uncertain dead letters.",
        ),
    ] = None
    dry_run: Annotated[
        bool | None,
        typer.Option("--dry-run", help="Only show the result for each; change nothing."),
    ] = None
    per_second: Annotated[
        float | None,
        typer.Option(
            min=0.001, max=1000, help="At most this many per second; 10 by default for replays."
        ),
    ] = None
    limit: Annotated[int | None, typer.Option(min=1, help="At most this many.")] = None

    def is_for_one(self, delivery_id: str | None, reason: str | None) -> bool:
        """Whether one delivery is named; exactly one way of naming must be used."""
        if (delivery_id is not None) + bool(self.conditions) + bool(self.everything) != 1:
            raise typer.BadParameter("give an ID, --filter or --all")
        if reason is None and not self.dry_run:
            raise typer.BadParameter("Missing option '--reason' / '-r'")
        if delivery_id is not None and self.dry_run:
            raise typer.BadParameter("--dry-run is for --filter and --all")
        return delivery_id is not None


class Wish(Struct, frozen=True):
    """What is to be done to which deliveries."""

    verb: BulkVerb
    chosen: DeliveryFilter
    everything: bool
    per_second: float | None
    limit: int | None


def use_on_many(
    place: Place, verb: str, many: BulkOptions, signed: dict[str, str], *, as_json: bool
) -> None:
    """Use the verb on all that the options select, or with `--dry-run` only show its effect."""
    [(known, bulk)] = [(name, row) for name, row in BULK.items() if name == verb]
    wish = Wish(
        known,
        filter_of_conditions(many.conditions or ()),
        bool(many.everything),
        many.per_second or bulk.per_second,
        many.limit,
    )
    if many.dry_run:
        _predict(place, wish, as_json=as_json)
    else:
        _act(place, wish, signed, as_json=as_json)


def _act(place: Place, wish: Wish, signed: dict[str, str], *, as_json: bool) -> None:
    started: list[BulkProgress] = []

    async def act(homing: Homing) -> None:
        progress = await homing.bulk.start(
            wish.verb,
            wish.chosen,
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
            " an ID or --filter reason=uncertain",
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
        matched = await homing.bulk.count(wish.verb, wish.chosen, everything=wish.everything)
        items: list[Item] = []
        with counting(wish.verb, min(matched, wish.limit or matched)) as show:
            async for one in homing.bulk.predict(
                wish.verb, wish.chosen, everything=wish.everything, limit=wish.limit
            ):
                items.append(_item(homing, one))
                show(len(items))
        return matched, await homing.bulk.count_left_out(wish.verb, wish.chosen), items

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
