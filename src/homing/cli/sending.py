"""`homing send`: an e-mail from the command line, stored first, then tried at once."""

from __future__ import annotations

import asyncio
import base64
import mimetypes
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import typer

from homing.cli.email_fields import email_from, read_fields
from homing.cli.options import AsJson, Place, command
from homing.cli.progress import working
from homing.cli.session import WrongUse, demand_folder, homing_at, print_json, view_of
from homing.cli.terminal import STATE_COLORS, at, colored
from homing.domain.errors import InvalidRequest
from homing.domain.message import Email
from homing.domain.redaction import visible
from homing.engine.ops.views import DeliveryView
from homing.runtime.app import Homing
from homing.settings import seconds

Time: TypeAlias = datetime | timedelta | None
Addresses = Annotated[list[str] | None, typer.Option(help="May be given several times.")]


def register(app: typer.Typer) -> None:
    app.command()(command(send))


def send(  # noqa: PLR0913, PLR0917 - each is an option
    place: Place,
    to: Annotated[
        list[str] | None, typer.Option(help="A recipient; may be given several times.")
    ] = None,
    subject: Annotated[str | None, typer.Option(help="The subject.")] = None,
    text: Annotated[str | None, typer.Option(help="The text; - reads it from stdin.")] = None,
    html: Annotated[Path | None, typer.Option(help="A file with the HTML.")] = None,
    sender: Annotated[
        str | None, typer.Option("--from", help="One of the senders that the route allows.")
    ] = None,
    cc: Addresses = None,
    bcc: Addresses = None,
    attach: Annotated[
        list[Path] | None, typer.Option(help="A file to attach; may be given several times.")
    ] = None,
    template: Annotated[str | None, typer.Option(help="A template instead of a text.")] = None,
    var: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUE", help="A variable of the template."),
    ] = None,
    fields: Annotated[
        Path | None,
        typer.Option(help="JSON with any fields, as in POST /deliveries; - is stdin."),
    ] = None,
    key: Annotated[
        str | None, typer.Option(help="The idempotency key: a repeated one sends nothing.")
    ] = None,
    source: Annotated[str, typer.Option(help="Which program submits it.")] = "",
    send_at: Annotated[
        str | None,
        typer.Option(help="No attempt before then: 2h for in two hours, or 2027-01-31T08:00Z."),
    ] = None,
    expires_at: Annotated[
        str | None, typer.Option(help="No attempt after then, written in the same way.")
    ] = None,
    queue: Annotated[
        bool, typer.Option("--queue", help="Only store it; a worker sends it.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Store an e-mail and send it at once.

    After a temporary failure a worker tries again.
    """
    given = {
        "to": to,
        "from": sender,
        "subject": subject,
        "text": sys.stdin.read() if text == "-" else text,
        "html": None if html is None else _read(html, "html").decode(errors="replace"),
        "cc": cc,
        "bcc": bcc,
        "attachments": None if attach is None else [_attachment(path) for path in attach],
        "template_id": template,
        "variables": None if var is None else dict(_pair(each) for each in var),
    }
    wanted: dict[str, Any] = {} if fields is None else read_fields(fields)
    wanted |= {name: value for name, value in given.items() if value is not None}
    if not wanted.keys() & {"to", "cc", "bcc"}:
        raise WrongUse("give a recipient: --to ann@example.org")
    email = email_from(wanted)
    times = _time("send-at", send_at), _time("expires-at", expires_at)
    homing = homing_at(place, reading=False)
    demand_folder(homing.store)
    with working("sending"):
        view, created = asyncio.run(_send(homing, email, key, source, times, queue=queue))
    if as_json:
        print_json({**_fields(view), "created": created})
    else:
        typer.echo(_sentence(view, created=created))
    raise typer.Exit(1 if view.state == "failed" else 0)


async def _send(
    homing: Homing,
    email: Email,
    key: str | None,
    source: str,
    times: tuple[Time, Time],
    *,
    queue: bool,
) -> tuple[DeliveryView, bool]:
    async with homing:
        now = datetime.fromtimestamp(homing.engine.clock.now_ms() / 1000, UTC)
        send_at, expires_at = (now + at if isinstance(at, timedelta) else at for at in times)
        act = homing.submit if queue else homing.send
        ticket = await act(email, key=key, source=source, send_at=send_at, expires_at=expires_at)
        return await view_of(homing, ticket.delivery), ticket.created


def _fields(view: DeliveryView) -> dict[str, Any]:
    import msgspec

    fields: dict[str, Any] = msgspec.to_builtins(view)
    return fields


def _sentence(view: DeliveryView, *, created: bool) -> str:
    said = f"send: {visible(view.delivery_id)} is {colored(view.status, STATE_COLORS[view.state])}"
    if not created:
        said += "; it was accepted before under this key"
    if view.last_error:
        said += f": {visible(view.last_error)}"
    if view.next_attempt_at_ms is not None and view.attempts:
        said += f"; a worker tries again at {at(view.next_attempt_at_ms)}"
    elif view.next_attempt_at_ms is not None and view.next_attempt_at_ms > view.created_at_ms:
        said += f"; a worker sends it at {at(view.next_attempt_at_ms)}"
    return said


def _attachment(path: Path) -> dict[str, str]:
    kind, encoding = mimetypes.guess_type(path.name)
    known = kind if kind is not None and encoding is None else "application/octet-stream"
    content = base64.b64encode(_read(path, "attach")).decode()
    return {"filename": path.name, "content_base64": content, "content_type": known}


def _read(path: Path, option: str) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise InvalidRequest(f"--{option}", f"{path} cannot be read: {error.strerror}") from None


def _time(option: str, text: str | None) -> Time:
    """A time, or how long it is until then."""
    if text is None:
        return None
    try:
        return timedelta(seconds=seconds(text))
    except ValueError:
        pass
    try:
        given = datetime.fromisoformat(text)
    except ValueError:
        given = None
    if given is None or given.tzinfo is None:
        raise WrongUse(
            f"--{option}: {text!r} is not a time; write 2h for in two hours, or a time with its"
            " zone such as 2027-01-31T08:00Z"
        )
    return given


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise WrongUse(f"--var {text}: write NAME=VALUE")
    return name, value
