"""The desk's verbs: each keeps who did it and why."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated

import typer

from homing.app import Homing
from homing.cli.session import AsJson, ConfigFile, operator, print_json, with_homing
from homing.domain.delivery import Delivery
from homing.engine.views import delivery_view

DeliveryId = Annotated[str, typer.Argument(metavar="ID")]
RouteName = Annotated[str, typer.Argument(metavar="ROUTE")]
Reason = Annotated[str, typer.Option("--reason", "-r", help="Why; kept in the audit.")]
Actor = Annotated[
    str | None, typer.Option(help="Who; the user of this terminal by default.", show_default=False)
]


def register(app: typer.Typer) -> None:
    for verb, meaning in MEANINGS.items():
        app.command(verb, help=meaning)(_command(verb))
    app.command()(confirm)
    app.command()(annotate)
    app.command()(park)
    app.command()(unpark)


MEANINGS = {
    "replay": "Try a dead letter again, from its failed stage, with a new budget.",
    "restart": "Try a dead letter again from its first stage.",
    "resend": "Send an ended delivery a second time, on purpose, as a delivery of its own.",
    "dismiss": "Close a dead letter for good.",
    "restore": "Undo a dismissal or a cancellation.",
    "cancel": "Withdraw what has not ended yet.",
}


def _command(verb: str) -> Callable[..., None]:
    def command(
        delivery_id: DeliveryId,
        reason: Reason,
        actor: Actor = None,
        config: ConfigFile = None,
        as_json: AsJson = False,
    ) -> None:
        async def act(homing: Homing) -> Delivery:
            use: Callable[..., Awaitable[Delivery]] = getattr(homing.desk, verb)
            return await use(delivery_id, actor=actor or operator(), reason=reason)

        _answer(with_homing(config, act), verb, as_json=as_json)

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

    async def act(homing: Homing) -> Delivery:
        return await homing.desk.confirm(
            delivery_id, actor=actor or operator(), reason=reason, evidence=evidence
        )

    _answer(with_homing(config, act), "confirm", as_json=as_json)


def annotate(
    delivery_id: DeliveryId,
    note: Annotated[str, typer.Option(help="What others should know.")],
    actor: Actor = None,
    config: ConfigFile = None,
) -> None:
    """Leave a note on a delivery."""

    async def act(homing: Homing) -> None:
        await homing.desk.annotate(delivery_id, actor=actor or operator(), note=note)

    with_homing(config, act)


def park(route: RouteName, reason: Reason, actor: Actor = None, config: ConfigFile = None) -> None:
    """Stop a route: nothing of it is tried until it is unparked."""

    async def act(homing: Homing) -> None:
        await homing.desk.park(route, actor=actor or operator(), reason=reason)

    with_homing(config, act)


def unpark(
    route: RouteName, reason: Reason, actor: Actor = None, config: ConfigFile = None
) -> None:
    """Let a parked route go on, in order."""

    async def act(homing: Homing) -> None:
        await homing.desk.unpark(route, actor=actor or operator(), reason=reason)

    with_homing(config, act)


def _answer(delivery: Delivery, verb: str, *, as_json: bool) -> None:
    if as_json:
        print_json(delivery_view(delivery, None))
    else:
        typer.echo(f"{verb}: {delivery.id} is {delivery.state}")
