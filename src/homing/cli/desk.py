"""The desk's verbs: each keeps who did it and why."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Annotated

import typer

from homing.app import Homing
from homing.cli.session import (
    AsJson,
    ConfigFile,
    DeliveryId,
    operator,
    print_json,
    view_of,
    with_homing,
)
from homing.domain.delivery import Delivery
from homing.domain.redaction import visible
from homing.engine.parking import KNOWN_WITHIN_S
from homing.engine.views import DeliveryView
from homing.settings import span

RouteName = Annotated[str, typer.Argument(metavar="ROUTE")]
Reason = Annotated[str, typer.Option("--reason", "-r", help="Why; kept in the audit.")]
Actor = Annotated[
    str | None, typer.Option(help="Who; the user of this terminal by default.", show_default=False)
]

MEANINGS = {
    "replay": "Try a dead letter again, from its failed stage, with a new budget.",
    "restart": "Try a dead letter again from its first stage.",
    "resend": "Send an ended delivery a second time, on purpose, as a delivery of its own.",
    "dismiss": "Close a dead letter; `restore` undoes it.",
    "restore": "Undo a dismissal or a cancellation.",
    "cancel": "Withdraw what has not ended yet.",
}


def register(app: typer.Typer) -> None:
    for verb, meaning in MEANINGS.items():
        app.command(verb, help=meaning)(_command(verb))
    app.command()(confirm)
    app.command()(annotate)
    app.command()(park)
    app.command()(unpark)


def _command(verb: str) -> Callable[..., None]:
    def command(
        delivery_id: DeliveryId,
        reason: Reason,
        actor: Actor = None,
        config: ConfigFile = None,
        as_json: AsJson = False,
    ) -> None:
        def act(homing: Homing) -> Awaitable[Delivery]:
            use: Callable[..., Awaitable[Delivery]] = getattr(homing.desk, verb)
            return use(delivery_id, **who(actor, reason))

        answer(config, verb, act, as_json=as_json)

    return command


def confirm(
    delivery_id: DeliveryId,
    reason: Reason,
    evidence: Annotated[str, typer.Option(help="What shows that it arrived.")],
    actor: Actor = None,
    config: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """Say that an uncertain one did arrive, with the evidence."""

    def act(homing: Homing) -> Awaitable[Delivery]:
        return homing.desk.confirm(delivery_id, evidence=evidence, **who(actor, reason))

    answer(config, "confirm", act, as_json=as_json)


def annotate(
    delivery_id: DeliveryId,
    note: Annotated[str, typer.Option(help="What others should know.")],
    actor: Actor = None,
    config: ConfigFile = None,
) -> None:
    """Add a note to a delivery."""

    async def act(homing: Homing) -> None:
        signed = who(actor, note)
        await homing.desk.annotate(delivery_id, actor=signed["actor"], note=signed["reason"])

    with_homing(config, act)
    typer.echo(f"annotate: noted on {visible(delivery_id)}")


def park(route: RouteName, reason: Reason, actor: Actor = None, config: ConfigFile = None) -> None:
    """Stop a route: nothing of it is tried until it is unparked."""

    async def act(homing: Homing) -> int:
        return await homing.desk.park(route, **who(actor, reason))

    under_way = with_homing(config, act)
    typer.echo(f"park: {visible(route)} is parked until a person unparks it")
    typer.echo(
        f"Workers stop within {span(KNOWN_WITHIN_S)}. {under_way} under way: what is being sent"
        " already is finished, the rest is given back."
    )


def unpark(
    route: RouteName, reason: Reason, actor: Actor = None, config: ConfigFile = None
) -> None:
    """Start a parked route again, in order."""

    async def act(homing: Homing) -> None:
        await homing.desk.unpark(route, **who(actor, reason))

    with_homing(config, act)
    typer.echo(
        f"unpark: {visible(route)} is no longer parked; workers go on within {span(KNOWN_WITHIN_S)}"
    )


def who(actor: str | None, reason: str) -> dict[str, str]:
    """Both are shown to people later: one line each, without invisible or direction characters."""
    from homing.content.characters import check_label

    signed = {"actor": actor or operator(), "reason": reason}
    for field, text in signed.items():
        check_label(text, field)
    return signed


def answer(
    config: Path | None, verb: str, act: Callable[[Homing], Awaitable[Delivery]], *, as_json: bool
) -> None:
    """Use a verb and say where the delivery stands now."""

    async def acted(homing: Homing) -> DeliveryView:
        return view_of(homing, await act(homing))

    view = with_homing(config, acted)
    if as_json:
        print_json(view)
    else:
        typer.echo(visible(f"{verb}: {view.delivery_id} is {view.status}"))
