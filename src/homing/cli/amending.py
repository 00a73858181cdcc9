"""`homing amend`: replaces a refused e-mail by a corrected one."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from homing.app import Homing
from homing.cli.desk import Actor, Reason, answer, who
from homing.cli.session import AsJson, ConfigFile, DeliveryId
from homing.domain.delivery import Delivery
from homing.domain.errors import InvalidRequest, NotAllowed
from homing.domain.message import Email, Message, decode_message

MAX_FIELDS_BYTES = 64 * 1024 * 1024
# What may be replaced: its name in the API, and in an e-mail.
FIELDS = {
    "to": "to",
    "cc": "cc",
    "bcc": "bcc",
    "from": "sender",
    "reply_to": "reply_to",
    "subject": "subject",
    "text": "text",
    "html": "html",
    "template_id": "template_id",
    "locale": "locale",
    "variables": "variables",
    "attachments": "attachments",
    "invitation": "invitation",
    "headers": "headers",
}


def register(app: typer.Typer) -> None:
    app.command()(amend)


def amend(
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
    config: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """Correct what is to be sent; the old content stays readable. Then replay it."""
    changes = _read(fields) if fields is not None else {}
    if to:
        changes["to"] = to
    if not changes:
        raise typer.BadParameter("give --to or --fields")

    def act(homing: Homing) -> Awaitable[Delivery]:
        return _amend(homing, delivery_id, changes, who(actor, reason))

    answer(config, "amend", act, as_json=as_json)


async def _amend(
    homing: Homing, delivery_id: str, changes: Mapping[str, Any], signed: Mapping[str, str]
) -> Delivery:
    from homing.engine.admission import Request

    delivery = await homing.desk.show(delivery_id)
    content = await homing.store.content(delivery_id)
    if content is None or not content.payload:
        raise NotAllowed(f"cannot amend delivery {delivery_id}: its payload is gone")
    email = corrected(decode_message(content.payload), changes)
    route = homing.engine.routes[delivery.route]
    new = homing.engine.admission.prepare(route, Request(message=email))
    return await homing.desk.amend(
        delivery_id,
        new.payload,
        addresses=tuple(recipient.address for recipient in new.delivery.recipients),
        **signed,
    )


def corrected(message: Message, changes: Mapping[str, Any]) -> Email:
    """The e-mail with these fields instead of its own; InvalidRequest names a wrong one."""
    import msgspec

    from homing.web.intake import email_of
    from homing.web.problems import BadRequest
    from homing.web.schemas import EmailIn
    from homing.web.strict_json import parse

    if not isinstance(message, Email):
        raise NotAllowed("only e-mails can be amended here")
    for name in changes:
        if name not in FIELDS:
            raise InvalidRequest(name, f"cannot be amended; {', '.join(FIELDS)} can")
    try:
        given = parse(msgspec.json.encode({"to": message.to, **changes}), EmailIn)
    except BadRequest as error:
        raise InvalidRequest(error.field or "fields", error.detail) from None
    new = email_of(given)
    return msgspec.structs.replace(
        message, **{FIELDS[name]: getattr(new, FIELDS[name]) for name in changes}
    )


def _read(path: Path) -> dict[str, Any]:
    import msgspec

    try:
        with sys.stdin.buffer if str(path) == "-" else path.open("rb") as file:
            data = file.read(MAX_FIELDS_BYTES + 1)
    except OSError as error:
        raise InvalidRequest("fields", f"cannot be read: {error.strerror}") from None
    if len(data) > MAX_FIELDS_BYTES:
        raise InvalidRequest("fields", f"is larger than {MAX_FIELDS_BYTES:,} bytes")
    try:
        return msgspec.json.decode(data, type=dict[str, Any])
    except msgspec.DecodeError as error:
        raise InvalidRequest("fields", f"is not a JSON object: {error}") from None
