"""A provider with prepared answers, for tests of your own routes and steps.

The stub (`stub:?script=…`) takes words of SMTP and HTTP; this one takes the values, exceptions and
waits themselves, and can have a lookup and a token window as well.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable
from typing import TypeAlias

from msgspec import Struct

from homing.domain.delivery import Receipt
from homing.domain.failure import Failure
from homing.ports import Absent, Accepted, Envelope, Found, Ready, Unknown


class Hang(Struct, frozen=True):
    """No answer, ever; `accepted` says whether the message was accepted nevertheless."""

    accepted: bool = False


Answer: TypeAlias = Accepted | Failure | Exception | Hang
ACCEPT = Accepted(Receipt("scripted"))


class ScriptedProvider:
    """Gives one answer after the other, then `otherwise`; keeps what was asked and accepted.

    `refusals` are given in `prepare`, before anything is sent: one for each call, None to let
    it pass.
    """

    def __init__(
        self,
        answers: Iterable[Answer] = (),
        *,
        otherwise: Answer = ACCEPT,
        refusals: Iterable[Failure | None] = (),
        token_window_s: float = 0.0,
    ) -> None:
        self.token_window_s = token_window_s
        self._answers = deque(answers)
        self._otherwise = otherwise
        self._refusals = deque(refusals)
        self.prepared: list[Envelope] = []
        self.committed: list[Envelope] = []
        self.accepted: list[Envelope] = []
        self.abandoned: list[Envelope] = []
        self.is_closed = False

    async def prepare(self, envelope: Envelope) -> Ready | Failure:
        self.prepared.append(envelope)
        refusal = self._refusals.popleft() if self._refusals else None
        return _Prepared(self, envelope) if refusal is None else refusal

    async def commit(self, envelope: Envelope) -> Accepted | Failure:
        self.committed.append(envelope)
        answer = self._answers.popleft() if self._answers else self._otherwise
        if isinstance(answer, Accepted) or (isinstance(answer, Hang) and answer.accepted):
            self.accepted.append(envelope)
        if isinstance(answer, Hang):
            forever: asyncio.Future[Accepted] = asyncio.get_running_loop().create_future()
            return await forever
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def close(self) -> None:
        self.is_closed = True


class ScriptedLookup(ScriptedProvider):
    """One that can also be asked: answers from `lookups`, then by what it has accepted."""

    def __init__(
        self,
        answers: Iterable[Answer] = (),
        *,
        lookups: Iterable[Found | Absent | Unknown | Exception] = (),
        token_window_s: float = 0.0,
    ) -> None:
        super().__init__(answers, token_window_s=token_window_s)
        self._lookups = deque(lookups)
        self.asked: list[str] = []

    async def lookup(
        self, token: str, notification_id: str | None = None
    ) -> Found | Absent | Unknown:
        del notification_id  # the token says it all
        self.asked.append(token)
        if self._lookups:
            answer = self._lookups.popleft()
            if isinstance(answer, Exception):
                raise answer
            return answer
        taken = any(envelope.token == token for envelope in self.accepted)
        return Found(Receipt("scripted")) if taken else Absent()


class _Prepared:
    def __init__(self, provider: ScriptedProvider, envelope: Envelope) -> None:
        self._provider = provider
        self._envelope = envelope

    async def commit(self) -> Accepted | Failure:
        return await self._provider.commit(self._envelope)

    async def abandon(self) -> None:
        self._provider.abandoned.append(self._envelope)
