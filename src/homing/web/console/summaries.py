"""What a delivery is about, in one line: the subject of a mail, the type of an event, the job."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from email import policy
from email.parser import BytesHeaderParser

import msgspec
from msgspec import Struct

from homing.domain.delivery import FROZEN, Content, Delivery
from homing.ports import Store

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

    def __init__(self, store: Store) -> None:
        self._store = store
        self._known: OrderedDict[tuple[str, int], str] = OrderedDict()

    async def of(self, deliveries: Sequence[Delivery]) -> dict[str, str]:
        """By delivery id."""
        return {delivery.id: await self._one(delivery) for delivery in deliveries}

    async def _one(self, delivery: Delivery) -> str:
        key = (delivery.id, delivery.payload_no)
        found = self._known.get(key)
        if found is None:
            content = await self._store.content(delivery.id)
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
