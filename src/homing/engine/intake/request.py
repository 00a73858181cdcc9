"""A caller's request, and the ticket it gets."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import TypedDict

from msgspec import Struct

from homing.domain.delivery import DEFAULT_PRIORITY, Delivery, Fact
from homing.domain.message import Message

NO_SOURCE = ""
NO_GENERATION = 0
NO_FACTS: tuple[Fact, ...] = ()


class SubmitOptions(TypedDict, total=False):
    """The further keyword arguments of `submit`, `send` and `submit_many`.

    `source` is the program that submits: the same key of two sources is two keys.
    `priority` is 1 (first) to 4 (last). No attempt is made before `send_at` or after `expires_at`;
    both are datetimes with a time zone. `metadata` is kept and shown with the delivery. With
    `generation`, only workers of that generation handle it. `delivery_id` is an id of your own.
    `facts` are stored in the same commit.
    """

    source: str
    priority: int
    send_at: datetime | None
    expires_at: datetime | None
    metadata: Mapping[str, str]
    generation: int
    delivery_id: str | None
    facts: tuple[Fact, ...]


class Request(Struct, frozen=True, gc=False, kw_only=True):
    """One message with its options (see `SubmitOptions`).

    `facts` are stored in the same commit as the delivery: all or nothing, and not at all if
    the delivery exists already.
    """

    message: Message
    key: str | None = None
    source: str = NO_SOURCE
    priority: int = DEFAULT_PRIORITY
    send_at: datetime | None = None
    expires_at: datetime | None = None
    generation: int = NO_GENERATION
    delivery_id: str | None = None
    metadata: Mapping[str, str] = {}
    facts: tuple[Fact, ...] = NO_FACTS


class Ticket(Struct, frozen=True, gc=False):
    """The durable record, and whether this call has created it."""

    delivery: Delivery
    created: bool

    @property
    def delivery_id(self) -> str:
        """The id by which operators, the command line and REST know the delivery."""
        return self.delivery.id
