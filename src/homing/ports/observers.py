"""Receivers of transitions, notices and alerts."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Literal, Protocol, runtime_checkable

from msgspec import Struct

from homing.domain.delivery import Attempt, Delivery


class Transitioned(Struct, frozen=True, gc=False):
    """A transition, passed to observers after it was stored (with a version one higher)."""

    name: str
    delivery: Delivery
    previous: Delivery | None
    ended: tuple[Attempt, ...]
    at_ms: int


@runtime_checkable
class Observer(Protocol):
    """Receives every transition. Its exceptions are logged and do not stop the engine."""

    def observe(self, events: Sequence[Transitioned]) -> None:
        """Called after each commit, with all its transitions, on the event loop."""


@runtime_checkable
class ClaimObserver(Observer, Protocol):
    """An observer that also receives claims (`claim`), before the attempts begin."""

    observes_claims: Literal[True]


@runtime_checkable
class Notifier(Protocol):
    """Delivers the notices of a transition (an alert, a log line)."""

    notices: Collection[str]

    async def notify(self, notice: str, delivery: Delivery, attempts: Sequence[Attempt]) -> bool:
        """Deliver a notice; True once that is safely done. A crash may repeat the call."""


class Alert(Struct, frozen=True):
    """Something a person should know that does not concern a single delivery."""

    kind: str
    key: str
    text: str
    at_ms: int


@runtime_checkable
class Alarm(Protocol):
    """The receiver of alerts."""

    async def sound(self, alert: Alert) -> bool:
        """Raise the alert; True once that is safely done. Otherwise the call is repeated."""
