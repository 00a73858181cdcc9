"""What a delivery is about, in one line: the subject of a mail, the type of an event, the job."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from email import policy
from email.parser import BytesHeaderParser

import msgspec
from msgspec import Struct

from homing.domain.delivery import FROZEN, Content, Delivery
from homing.engine.ops.caller import CallerOperations

REMEMBERED = 4096


class Outline(Struct, frozen=True):
    """The fields of any message that name it; the rest is skipped, files in base64 too."""

    kind: str = ""
    subject: str = ""
    template_id: str | None = None
    type: str = ""
    name: str = ""


_outline = msgspec.json.Decoder(Outline)


class Summaries:
    """A payload never changes under its number, so each is read once."""

    def __init__(self) -> None:
        self._known: OrderedDict[tuple[str, int], str] = OrderedDict()

    async def of(self, ops: CallerOperations, deliveries: Sequence[Delivery]) -> dict[str, str]:
        """By delivery id. A subject is content: who may not see it is shown a name."""
        if not ops.sees_personal_data:
            return {each.id: each.topic or f"{each.route}, {each.id[-6:]}" for each in deliveries}
        return {delivery.id: await self._one(ops, delivery) for delivery in deliveries}

    async def _one(self, ops: CallerOperations, delivery: Delivery) -> str:
        key = (delivery.id, delivery.payload_no)
        found = self._known.get(key)
        if found is None:
            content = await ops.content(delivery.id)
            found = summary(content, delivery)
            # The subject of a template is known once it has been rendered.
            if delivery.is_terminal or delivery.topic is None:
                self._known[key] = found
                while len(self._known) > REMEMBERED:
                    self._known.popitem(last=False)
        return found


def summary(content: Content | None, delivery: Delivery) -> str:
    if content is None or not content.payload:
        return delivery.topic or "(no content kept)"
    try:
        outline = _outline.decode(content.payload)
    except msgspec.DecodeError:  # a payload of another program
        return delivery.topic or delivery.route
    if outline.kind != "email":
        return outline.type or outline.name or delivery.topic or delivery.route
    return outline.subject or _rendered_subject(content) or outline.template_id or "(no subject)"


def _rendered_subject(content: Content) -> str | None:
    parsed = BytesHeaderParser(policy=policy.default).parsebytes(content.results.get(FROZEN, b""))
    return str(parsed["subject"]) if "subject" in parsed else None
