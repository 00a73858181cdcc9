"""`homing amend`: replaces a refused e-mail by a corrected one."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from homing.cli.desk import Actor, Reason, answer, who
from homing.cli.email_fields import email_from, read_fields
from homing.cli.options import AsJson, DeliveryId, Place, command
from homing.domain.delivery import Delivery
from homing.domain.errors import NotAllowed
from homing.domain.message import Email, decode_message
from homing.runtime.app import Homing


def register(app: typer.Typer) -> None:
    app.command()(command(amend))


def amend(
    place: Place,
    delivery_id: DeliveryId,
    reason: Reason,
    to: Annotated[
        list[str] | None, typer.Option(help="The right recipient; may be given several times.")
    ] = None,
    fields: Annotated[
        Path | None,
        typer.Option(help="JSON with the fields to replace, as in POST /deliveries; - is stdin."),
    ] = None,
    actor: Actor = None,
    as_json: AsJson = False,
) -> None:
    """Correct what is to be sent; the old content stays readable. Then replay it."""
    changes = read_fields(fields) if fields is not None else {}
    if to:
        changes["to"] = to
    if not changes:
        raise typer.BadParameter("give --to or --fields")

    def act(homing: Homing) -> Awaitable[Delivery]:
        return _amend(homing, delivery_id, changes, who(actor, reason))

    answer(place, "amend", act, as_json=as_json)


async def _amend(
    homing: Homing, delivery_id: str, changes: Mapping[str, Any], signed: Mapping[str, Any]
) -> Delivery:
    content = await homing.store.content(delivery_id)
    if content is None or not content.payload:
        await homing.desk.show(delivery_id)
        raise NotAllowed(f"cannot amend delivery {delivery_id}: its payload is gone")
    message = decode_message(content.payload)
    if not isinstance(message, Email):
        raise NotAllowed("only e-mails can be amended here")
    return await homing.desk.amend(delivery_id, email_from(changes, message), **signed)
