"""The result of a route's `admit`: a message in the form in which it is stored."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from homing.domain.errors import InvalidRequest
from homing.domain.message import Email, Event, Message

NO_METADATA: Mapping[str, str] = {}


class Admitted(Struct, frozen=True, kw_only=True, gc=False):
    """A message as its route stores it.

    `message` is stored, and the fingerprint is computed from it: bring it into a normal form, so
    that harmless differences of spelling are not a conflict. `recipients` is the envelope.
    `intent` names the business fact that may be delivered only once, whatever the key. `queue` is
    the suffix of the queue under the route's name, `plan` one of the route's `plans` by name.
    `topic` is what deliveries are listed by. With `suppressed_because` it is stored as skipped on
    purpose and never tried.
    """

    message: Message
    recipients: tuple[str, ...] = ()
    intent: str | None = None
    queue: str = ""
    plan: str = ""
    topic: str | None = None
    suppressed_because: str | None = None
    metadata: Mapping[str, str] = NO_METADATA

    @classmethod
    def of(cls, message: Message, **differing: Any) -> Admitted:
        """The default: the recipients in the envelope of an e-mail, the topic of the message.

        Keyword arguments override its fields.
        """
        usual: dict[str, Any] = {"message": message, "metadata": message.metadata}
        if isinstance(message, Email):
            if not (message.to or message.cc or message.bcc):
                raise InvalidRequest("to", "must name at least one recipient")
            usual |= {"recipients": message.envelope, "topic": message.template_id}
        else:
            usual["topic"] = message.type if isinstance(message, Event) else message.name
        return cls(**(usual | differing))
