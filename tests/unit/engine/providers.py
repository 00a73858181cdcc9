"""Providers that do as they are told, and routes that send through them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from homing.domain.delivery import Receipt
from homing.domain.failure import Failure
from homing.domain.policy import Plan
from homing.engine.route import Route
from homing.engine.work.steps import SendStep
from homing.ports import Absent, Accepted, Envelope, Found, Ready, Unknown
from tests.unit.engine.world import stage


class Provider:
    """Answers sends by a script, and lookups by what it is told to say."""

    def __init__(self, *answers: Accepted | Failure, token_window_s: float = 0.0) -> None:
        self.token_window_s = token_window_s
        self.answers = list(answers)
        self.sent: list[Envelope] = []
        self.abandoned = 0

    async def prepare(self, envelope: Envelope) -> Ready | Failure:
        return Sending(self, envelope)

    async def take(self, envelope: Envelope) -> Accepted | Failure:
        self.sent.append(envelope)
        return self.answers.pop(0) if self.answers else Accepted(Receipt("n-1"))

    async def close(self) -> None:
        """Nothing is open."""


class Sending:
    def __init__(self, provider: Provider, envelope: Envelope) -> None:
        self.provider = provider
        self.envelope = envelope

    async def commit(self) -> Accepted | Failure:
        return await self.provider.take(self.envelope)

    async def abandon(self) -> None:
        self.provider.abandoned += 1


class Flock(Provider):
    """Takes many at once, `room` of them at a time; each answer waits until it is let out."""

    def __init__(self, *answers: Accepted | Failure, room: int = 1000) -> None:
        super().__init__(*answers)
        self.room = room
        self.may_have_left = True
        self.asked: list[int] = []
        self.waiting: deque[GroupSending] = deque()

    async def prepare_some(self, envelopes: Sequence[Envelope]) -> list[GroupSending | Failure]:
        self.asked.append(len(envelopes))
        return [GroupSending(self, envelope) for envelope in envelopes[: self.room]]

    def answer(self, number: int = 1) -> None:
        for _ in range(number):
            self.waiting.popleft().tell()


class GroupSending(Sending):
    provider: Flock

    def start(self, told: Callable[[Accepted | Failure], None]) -> None:
        self.provider.sent.append(self.envelope)
        self.provider.waiting.append(self)
        self.told = told
        self.withdrawn = False

    def tell(self) -> None:
        answers = self.provider.answers
        self.told(answers.pop(0) if answers else Accepted(Receipt("n-1")))

    def withdraw(self) -> bool:
        self.withdrawn = True
        return self.provider.may_have_left


class Looking(Provider):
    def __init__(self, *answers: Accepted | Failure, says: Found | Absent | Unknown) -> None:
        super().__init__(*answers)
        self.says = says
        self.asked: list[str] = []

    async def lookup(
        self, token: str, notification_id: str | None = None
    ) -> Found | Absent | Unknown:
        self.asked.append(token)
        return self.says


def sending(
    provider: Provider, *, attempts: int = 3, step: SendStep | None = None, **rules: Any
) -> Route:
    """A route with one stage that hands the payload as it is to this provider."""
    step = step or SendStep(provider, lambda delivery, content: content.payload)
    only = stage("send", attempts=attempts, sends=True)
    return Route(
        name="mail",
        plan=Plan(stages=(only,), **rules),
        steps={"send": step},
        provider=provider,
    )
