"""The operator verbs as commands: each keeps who did it and why."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from homing.cli.bulk import BulkOptions, use_on_many
from homing.cli.email_fields import email_from, read_fields
from homing.cli.options import AsJson, DeliveryId, OptionGroup, Place, command
from homing.cli.session import WrongUse, operator, ops_of, print_json, view_of, with_homing
from homing.cli.terminal import STATE_COLORS, colored
from homing.domain.errors import NotAllowed
from homing.domain.message import Email, decode_message
from homing.domain.redaction import visible
from homing.engine.ops.verbs import ROUTE_VERBS, VERBS, Argument, OperatorVerb, Verb
from homing.engine.ops.views import DeliveryView
from homing.engine.process.pausing import KNOWN_WITHIN_S
from homing.runtime.app import Homing
from homing.settings import span

RouteName = Annotated[str, typer.Argument(metavar="ROUTE")]
REASON = typer.Option("--reason", "-r", help="Why; kept in the audit.")
NOTE = typer.Option("--note", help="What others should know.")
Reason = Annotated[str, REASON]
Actor = Annotated[
    str | None, typer.Option(help="Who; the user of this terminal by default.", show_default=False)
]


class Correction(OptionGroup, frozen=True, kw_only=True):
    """The fields of an e-mail that replace those it has."""

    to: Annotated[
        list[str] | None, typer.Option(help="The right recipient; may be given several times.")
    ] = None
    fields: Annotated[
        Path | None,
        typer.Option(help="JSON with the fields to replace, as in POST /deliveries; - is stdin."),
    ] = None

    def read(self) -> dict[str, Any]:
        """The fields by name; at least one must be given."""
        changes = read_fields(self.fields) if self.fields is not None else {}
        if self.to:
            changes["to"] = self.to
        if not changes:
            raise typer.BadParameter("give --to or --fields")
        return changes


def register(app: typer.Typer) -> None:
    for row in VERBS.values():
        help_text = f"{row.about}\n\n{row.more}".strip()
        app.command(row.name, help=help_text)(command(_command_of(row)))
    for function in (pause, resume):
        app.command(help=ROUTE_VERBS[function.__name__].about)(command(function))


def _command_of(row: OperatorVerb) -> Callable[..., None]:
    """A function with the options of this verb in its signature."""

    def use(
        *,
        place: Place,
        delivery_id: str | None,
        reason: str | None,
        actor: str | None,
        as_json: bool,
        many: BulkOptions | None = None,
        correction: Correction | None = None,
        **arguments: Any,
    ) -> None:
        if many is not None and not many.is_for_one(delivery_id, reason):
            if any(value is not None for value in arguments.values()):
                named = ", ".join(f"--{name}" for name in arguments)
                raise typer.BadParameter(f"{named}: for one delivery, by its ID")
            use_on_many(place, row.name, many, who(actor, reason or "dry run"), as_json=as_json)
            return
        signed = who(actor, reason or "")
        for each in row.arguments:
            if each.kind == "text":
                _check_line(each.name, arguments[each.name])
        changes = None if correction is None else correction.read()

        async def act(homing: Homing) -> DeliveryView:
            if changes is not None:
                arguments["email"] = await _corrected(homing, delivery_id or "", changes)
            done = await homing.ops.use(row.name, delivery_id or "", **signed, **arguments)
            return await view_of(homing, done)

        _tell(row.name, with_homing(place, act), as_json=as_json)

    use.__name__ = row.name
    use.__signature__ = inspect.Signature(list(_parameters(row)))  # type: ignore[attr-defined] # typer reads it
    return use


def _parameters(row: OperatorVerb) -> list[inspect.Parameter]:
    in_bulk = row.bulk is not None
    optional_id = Annotated[str | None, typer.Argument(metavar="ID")]
    option = REASON if row.reason_is == "reason" else NOTE
    found = [
        _parameter("place", Place),
        _parameter("delivery_id", *((optional_id, None) if in_bulk else (DeliveryId,))),
        _parameter(
            "reason",
            *((Annotated[str | None, option], None) if in_bulk else (Annotated[str, option],)),
        ),
        *(_option_of(each) for each in row.arguments if each.kind != "email"),
    ]
    if in_bulk:
        found.append(_parameter("many", BulkOptions))
    if row.takes("email"):
        found.append(_parameter("correction", Correction))
    return [*found, _parameter("actor", Actor, None), _parameter("as_json", AsJson, False)]


def _option_of(argument: Argument) -> inspect.Parameter:
    least = argument.least if argument.kind == "number" else None
    option = typer.Option(help=argument.about, min=least, show_default=False)
    kind: Any = int if argument.kind == "number" else str
    if argument.required:
        return _parameter(argument.name, Annotated[kind, option])
    return _parameter(argument.name, Annotated[kind | None, option], None)


def _parameter(
    name: str, annotation: Any, default: Any = inspect.Parameter.empty
) -> inspect.Parameter:
    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation
    )


async def _corrected(homing: Homing, delivery_id: str, changes: Mapping[str, Any]) -> Email:
    content = await ops_of(homing).content(delivery_id)
    if content is None or not content.payload:
        await homing.ops.show(delivery_id)
        raise NotAllowed(f"cannot amend delivery {delivery_id}: its payload is gone")
    message = decode_message(content.payload)
    if not isinstance(message, Email):
        raise NotAllowed("only e-mails can be amended here")
    return email_from(changes, message)


def pause(place: Place, route: RouteName, reason: Reason, actor: Actor = None) -> None:
    async def act(homing: Homing) -> int:
        _check_route(homing, route)
        return await homing.ops.pause(route, **who(actor, reason))

    claimed = with_homing(place, act)
    typer.echo(f"pause: {visible(route)} is paused until a person resumes it")
    typer.echo(
        f"Workers stop within {span(KNOWN_WITHIN_S)}. {claimed} claimed: those being sent"
        " are finished, the others are released."
    )


def resume(place: Place, route: RouteName, reason: Reason, actor: Actor = None) -> None:
    async def act(homing: Homing) -> None:
        _check_route(homing, route)
        await homing.ops.resume(route, **who(actor, reason))

    with_homing(place, act)
    typer.echo(
        f"resume: {visible(route)} is no longer paused; workers continue within"
        f" {span(KNOWN_WITHIN_S)}"
    )


def _check_route(homing: Homing, route: str) -> None:
    if route not in homing.engine.routes:
        raise WrongUse(homing.ops.no_route(route))


def who(actor: str | None, reason: str) -> dict[str, str]:
    """Both are shown to people later: one line each, without invisible or direction characters."""
    signed = {"actor": actor or operator(), "reason": reason}
    for field, text in signed.items():
        _check_line(field, text)
    return signed


def _check_line(field: str, text: str) -> None:
    from homing.content.characters import check_label

    check_label(text, field)


def _tell(verb: Verb, view: DeliveryView, *, as_json: bool) -> None:
    """Print the state of the delivery after the verb."""
    if as_json:
        print_json(view)
        return
    # Closed before it had failed: a dismissed dead letter keeps its reason.
    cancelled = view.state == "dismissed" and view.failed_because is None
    status = colored("cancelled" if cancelled else view.status, STATE_COLORS.get(view.state))
    because = f" ({view.failed_because})" if view.state == "failed" else ""
    typer.echo(f"{verb}: {visible(view.delivery_id)} is {status}{because}")
