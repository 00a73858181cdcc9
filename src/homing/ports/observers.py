"""Who is told: of transitions, of notices, of alerts."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Literal, Protocol, runtime_checkable

from msgspec import Struct

from homing.domain.delivery import Attempt, Delivery


class Transitioned(Struct, frozen=True, gc=False):
    """What observers are told after it was stored (with a version one higher)."""

    name: str
    delivery: Delivery
    previous: Delivery | None
    ended: tuple[Attempt, ...]
    at_ms: int


@runtime_checkable
class Observer(Protocol):
    """Is told of every transition; may not fail the engine."""

    def observe(self, events: Sequence[Transitioned]) -> None:
        """Called after each commit, with all its transitions, on the event loop."""


@runtime_checkable
class ClaimObserver(Observer, Protocol):
    """An observer that is told of claims as well (`claim`), before the attempts begin."""

    observes_claims: Literal[True]


@runtime_checkable
class Notifier(Protocol):
    """Gives the notices of a transition (an alert, a log line). True once one is safely given."""

    notices: Collection[str]

    async def notify(self, notice: str, delivery: Delivery, attempts: Sequence[Attempt]) -> bool:
        """Idempotent: a notice may be asked for again after a crash."""


class Alert(Struct, frozen=True):
    """Something a person should know that is not about a single delivery."""

    kind: str
    key: str
    text: str
    at_ms: int


@runtime_checkable
class Alarm(Protocol):
    """Where alerts go. True once it is safely given; asked again otherwise."""

    async def sound(self, alert: Alert) -> bool:
        """Give the alert."""
