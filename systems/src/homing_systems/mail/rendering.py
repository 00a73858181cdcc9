"""From a template to the bytes that are sent: rendered once, composed once, then never changed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec
from msgspec.structs import replace

from homing.content import mime
from homing.content.senders import Senders
from homing.domain import identity
from homing.domain.delivery import Content, Delivery
from homing.domain.failure import Failure
from homing.domain.message import decode_email
from homing.ports import Done, Outcome, Work

if TYPE_CHECKING:
    from homing.content.templates import Rendered

RENDER = "render"

Render: TypeAlias = Callable[[str, str | None, Mapping[str, Any]], "Rendered | Failure"]


class RenderStep:
    """Makes the content of a template mail. A failure here is final: a retry would fail too."""

    def __init__(self, render: Render) -> None:
        self._render = render

    async def __call__(self, work: Work) -> Outcome:
        kept = work.content.results.get(RENDER)
        if kept is not None:
            return Done(result=kept)  # a clone sends what its original has sent
        email = decode_email(work.content.payload)
        try:
            # In a thread: a template may compute for a second.
            made = await asyncio.to_thread(
                self._render, email.template_id or "", email.locale, email.variables
            )
        except Exception as error:
            # Its words may quote a variable, and a variable may be a login code.
            return Failure("template_failed", "reject", detail=type(error).__name__)
        if isinstance(made, Failure):
            return replace(made, disposition="reject")
        return Done(result=msgspec.json.encode(made))


def composer(senders: Senders) -> Callable[[Delivery, Content], bytes]:
    """The bytes of a mail: the same for every attempt, with a Message-ID of its own."""

    def compose(delivery: Delivery, content: Content) -> bytes:
        email = decode_email(content.payload)
        rendered = rendered_in(content)
        sender = senders.sender_of(email)
        return mime.build(
            email if rendered is None else rendered.into(email),
            message_id=identity.message_id(delivery, sender.domain),
            date_ms=delivery.created_at_ms,
            sender=str(sender),
        )

    return compose


def rendered_in(content: Content) -> Rendered | None:
    made = content.results.get(RENDER)
    if made is None:
        return None
    # Late: templates need the extra `mail`, which commands that only read work without.
    from homing.content.templates import Rendered  # noqa: PLC0415 - as above

    return msgspec.json.decode(made, type=Rendered)
