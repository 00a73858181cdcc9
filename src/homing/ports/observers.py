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


class Notice(Struct, frozen=True):
    """A delivery that someone is to be told of, with its ended attempts."""

    delivery: Delivery
    attempts: Sequence[Attempt] = ()


@runtime_checkable
class Notifier(Protocol):
    """Delivers the notices of transitions (alerts, log lines), of the kinds in `notices`.

    `most_at_once` bounds the groups it is given: 1 for one that takes a while for each notice,
    more for one that delivers a group in one go, as a file does.
    """

    notices: Collection[str]
    most_at_once: int

    async def notify(self, kind: str, group: Sequence[Notice]) -> Sequence[bool]:
        """Deliver notices of one kind; for each, True once that is safely done.

        The others are asked for again later, as is a group without an answer within 10 s. A crash
        may repeat the call; an exception repeats it for each notice of the group by itself.
        """


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
