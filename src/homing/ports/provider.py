"""The provider, which sends, and the optional capabilities of providers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Protocol, TypeAlias, runtime_checkable

from msgspec import Struct, field

from homing.domain.delivery import Receipt
from homing.domain.failure import Failure, Refusal


class Envelope(Struct, frozen=True, gc=False, kw_only=True):
    """What a provider has to send: frozen bytes for these recipients."""

    delivery_id: str
    token: str
    recipients: tuple[str, ...]
    data: bytes
    sender: str | None = None
    metadata: Mapping[str, str] = field(default_factory=dict)


class Accepted(Struct, frozen=True, gc=False):
    """The provider has accepted it, except for the recipients in `refused`."""

    receipt: Receipt
    refused: dict[str, Refusal] = field(default_factory=dict)


class Ready(Protocol):
    """A prepared send: the next byte may send it."""

    async def commit(self) -> Accepted | Failure:
        """Send it. An answer or a broken connection is returned as a Failure, never raised."""

    async def abandon(self) -> None:
        """Give up the prepared send; it is certain that nothing was sent."""


class Provider(Protocol):
    """A mail or message service. It discards repeated tokens for `token_window_s` (0: never)."""

    token_window_s: float

    async def prepare(self, envelope: Envelope) -> Ready | Failure:
        """Do all that can be done before the durable mark; nothing is sent yet."""

    async def close(self) -> None:
        """Close connections; called once, after the last send."""


@runtime_checkable
class OpenedProvider(Protocol):
    """A provider that has something to open before its first send."""

    async def open(self) -> None:
        """Called once by the engine. A failure is reported and stops nothing."""


class GroupSend(Ready, Protocol):
    """A prepared send that needs no task of its own."""

    def start(self, told: Callable[[Accepted | Failure], None]) -> None:
        """As `commit`, but returns at once; `told` is called with the answer, once."""

    def withdraw(self) -> bool:
        """After `start`: the caller no longer waits. What is not sent yet stays unsent.

        Returns whether it may have been sent. If some of its recipients have accepted it by
        then, `told` is called with that first.
        """


@runtime_checkable
class GroupProvider(Protocol):
    """A provider that takes many sends at once."""

    async def prepare_some(self, envelopes: Sequence[Envelope]) -> Sequence[GroupSend | Failure]:
        """As `prepare`, for as many of the first ones as there is room for: at least one."""


@runtime_checkable
class LimitedProvider(Protocol):
    """A provider for few sends at once. Further ones would wait within their time limit."""

    most_at_once: int


@runtime_checkable
class StaysLocal(Protocol):
    """A provider that knows whether its messages can leave this machine."""

    @property
    def stays_local(self) -> bool:
        """Whether nothing leaves this machine as it is configured; true for a fake on loopback."""


@runtime_checkable
class Described(Protocol):
    """A provider that can say in a few words what it is and where it sends, without secrets."""

    @property
    def description(self) -> str:
        """Such as `SMTP at mail.example.org:587`."""


@runtime_checkable
class Rehearsing(Protocol):
    """A provider for development: some addresses have fixed answers."""

    @property
    def test_addresses(self) -> Mapping[str, str]:
        """By address, what happens to a mail for it."""


class Found(Struct, frozen=True):
    """The provider has accepted it."""

    receipt: Receipt


class Absent(Struct, frozen=True):
    """Certainly not accepted: the provider's settle time is over and it has no such message."""


class Unknown(Struct, frozen=True):
    """No evidence for or against; ask again after `ask_again_s`."""

    ask_again_s: float = 30.0


@runtime_checkable
class Lookup(Protocol):
    """A provider that can tell whether it accepted a token.

    `notification_id` is the provider's own id of the message, if an earlier answer had one.
    """

    async def lookup(
        self, token: str, notification_id: str | None = None
    ) -> Found | Absent | Unknown:
        """What the provider knows about this token."""


@runtime_checkable
class PermittedLookup(Lookup, Protocol):
    """A provider whose account may lack the permission to look up; checked each time."""

    @property
    def may_look_up(self) -> bool:
        """Whether the account has the permission, as far as is known."""


# Raises an alert of this kind, about this key, with this text.
SoundAlert: TypeAlias = Callable[[str, str, str], Awaitable[bool]]


@runtime_checkable
class SoundsAlerts(Protocol):
    """A provider that may raise alerts that do not concern a single delivery."""

    def sound_alerts(self, sound: SoundAlert) -> None:
        """Called once by the engine, before the first send."""
