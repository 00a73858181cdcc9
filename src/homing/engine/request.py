"""What a caller asks for, and what it gets."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from homing.domain.delivery import DEFAULT_PRIORITY, Delivery, Fact
from homing.domain.message import Message


class Request(Struct, frozen=True, kw_only=True):
    """One message with all that a caller may say about it.

    `facts` are stored in the same commit as the delivery: all or nothing, and not at all where
    the delivery exists already.
    """

    message: Message
    key: str | None = None
    source: str = ""
    priority: int = DEFAULT_PRIORITY
    not_before_ms: int | None = None
    expires_at_ms: int | None = None
    generation: int = 0
    delivery_id: str | None = None
    metadata: Mapping[str, str] = {}
    facts: tuple[Fact, ...] = ()


class Ticket(Struct, frozen=True):
    """What a caller gets: the durable record, and whether this call made it."""

    delivery: Delivery
    created: bool

    @property
    def delivery_id(self) -> str:
        return self.delivery.id
