"""The desk's verbs on one delivery or one route: each keeps who did it and why."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated

import typer

from homing.cli.options import AsJson, DeliveryId, Place, command
from homing.cli.session import WrongUse, operator, print_json, view_of, with_homing
from homing.cli.terminal import STATE_COLORS, colored
from homing.domain.delivery import Delivery
from homing.domain.redaction import visible
from homing.engine.ops.views import DeliveryView
from homing.engine.process.pausing import KNOWN_WITHIN_S
from homing.runtime.app import Homing
from homing.settings import span

RouteName = Annotated[str, typer.Argument(metavar="ROUTE")]
Reason = Annotated[str, typer.Option("--reason", "-r", help="Why; kept in the audit.")]
Actor = Annotated[
    str | None, typer.Option(help="Who; the user of this terminal by default.", show_default=False)
]

MEANINGS = {
    "restart": "Try a dead letter again from its first stage.",
    "resend": "Send an ended delivery a second time, on purpose, as a new delivery.",
}


def register(app: typer.Typer) -> None:
    for verb, meaning in MEANINGS.items():
        app.command(verb, help=meaning)(command(_verb(verb)))
    for function in (confirm, annotate, pause, resume):
        app.command()(command(function))


def _verb(verb: str) -> Callable[..., None]:
    def use(
        place: Place,
        delivery_id: DeliveryId,
        reason: Reason,
        actor: Actor = None,
        as_json: AsJson = False,
    ) -> None:
        use_on_one(place, verb, delivery_id, who(actor, reason), as_json=as_json)

    return use


def use_on_one(
    place: Place, verb: str, delivery_id: str, signed: dict[str, str], *, as_json: bool
) -> None:
    def act(homing: Homing) -> Awaitable[Delivery]:
        use: Callable[..., Awaitable[Delivery]] = getattr(homing.desk, verb)
        return use(delivery_id, **signed)

    answer(place, verb, act, as_json=as_json)


def confirm(
    place: Place,
    delivery_id: DeliveryId,
    reason: Reason,
    evidence: Annotated[str, typer.Option(help="What shows that it arrived.")],
    actor: Actor = None,
    as_json: AsJson = False,
) -> None:
    """Record that an uncertain delivery did arrive, with the evidence."""

    def act(homing: Homing) -> Awaitable[Delivery]:
        return homing.desk.confirm(delivery_id, evidence=evidence, **who(actor, reason))

    answer(place, "confirm", act, as_json=as_json)


def annotate(
    place: Place,
    delivery_id: DeliveryId,
    note: Annotated[str, typer.Option(help="What others should know.")],
    actor: Actor = None,
) -> None:
    """Add a note to a delivery."""

    async def act(homing: Homing) -> None:
        signed = who(actor, note)
        await homing.desk.annotate(delivery_id, actor=signed["actor"], note=signed["reason"])

    with_homing(place, act)
    typer.echo(f"annotate: noted on {visible(delivery_id)}")


def pause(place: Place, route: RouteName, reason: Reason, actor: Actor = None) -> None:
    """Stop a route: none of its deliveries is tried until it is resumed."""

    async def act(homing: Homing) -> int:
        _check(homing, route)
        return await homing.desk.pause(route, **who(actor, reason))

    claimed = with_homing(place, act)
    typer.echo(f"pause: {visible(route)} is paused until a person resumes it")
    typer.echo(
        f"Workers stop within {span(KNOWN_WITHIN_S)}. {claimed} claimed: those being sent"
        " are finished, the others are released."
    )


def resume(place: Place, route: RouteName, reason: Reason, actor: Actor = None) -> None:
    """Start a paused route again, in order."""

    async def act(homing: Homing) -> None:
        _check(homing, route)
        await homing.desk.resume(route, **who(actor, reason))

    with_homing(place, act)
    typer.echo(
        f"resume: {visible(route)} is no longer paused; workers continue within"
        f" {span(KNOWN_WITHIN_S)}"
    )


def _check(homing: Homing, route: str) -> None:
    if route not in homing.engine.routes:
        raise WrongUse(homing.desk.no_route(route))


def who(actor: str | None, reason: str) -> dict[str, str]:
    """Both are shown to people later: one line each, without invisible or direction characters."""
    from homing.content.characters import check_label

    signed = {"actor": actor or operator(), "reason": reason}
    for field, text in signed.items():
        check_label(text, field)
    return signed


def answer(
    place: Place, verb: str, act: Callable[[Homing], Awaitable[Delivery]], *, as_json: bool
) -> None:
    """Use a verb and say where the delivery stands now."""

    async def acted(homing: Homing) -> DeliveryView:
        return await view_of(homing, await act(homing))

    view = with_homing(place, acted)
    if as_json:
        print_json(view)
        return
    # Closed before it had failed: a dismissed dead letter keeps its reason.
    cancelled = view.state == "dismissed" and view.failed_because is None
    status = colored("cancelled" if cancelled else view.status, STATE_COLORS.get(view.state))
    because = f" ({view.failed_because})" if view.state == "failed" else ""
    typer.echo(f"{verb}: {visible(view.delivery_id)} is {status}{because}")
