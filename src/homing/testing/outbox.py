"""An outbox for your own tests: a real engine on a memory store, with a clock that the test sets.

Nothing is sent, time passes only when the test advances it, and answers are prepared.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from contextlib import ExitStack
from email import message_from_bytes, policy
from email.message import EmailMessage
from types import TracebackType
from typing import Any, Self, TypeVar

from homing.domain.delivery import Delivery
from homing.ports import Facet, Query
from homing.providers.stub import StubProvider
from homing.runtime.app import Homing
from homing.testing.clocks import ManualClock
from homing.testing.random_numbers import SeededRandom
from homing.testing.store import OutboxStore

T = TypeVar("T")


class Outbox:
    """Pass `outbox.homing` to the code under test.

    With the Homing of your application, as a module of it has it, that one is used: until the
    outbox is closed it works on a memory store, with a stub and a clock of the outbox.
    """

    def __init__(self, homing: Homing | None = None) -> None:
        self.clock = ManualClock()
        self.provider = StubProvider()
        self.homing = homing or Homing("memory:", provider="stub:")
        self._replaced = ExitStack()

    async def __aenter__(self) -> Self:
        self.replace()
        try:
            await self.homing.start()
        except BaseException:
            self.restore()
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.homing.stop()
        self.restore()

    def replace(self) -> None:
        """Put the parts for tests in place; `async with` and `SyncOutbox` do so."""
        self._replaced.enter_context(
            self.homing._replaced(
                store=OutboxStore(), provider=self.provider, clock=self.clock, rng=SeededRandom(0)
            )
        )

    def restore(self) -> None:
        """Put the application's own parts back."""
        self._replaced.close()

    def answer(self, *words: str) -> None:
        """The provider's answers to the next sends: `503`, `timeout`, `550`, `ok`, …"""
        self.provider.answer(*words)

    async def run(self) -> int:
        """Attempt all that is due now. Returns the number of attempts."""
        return await self.homing.engine.run_until_idle()

    async def advance(self, *, seconds: float = 0, minutes: float = 0, hours: float = 0) -> int:
        """Let time pass, then attempt all that has become due."""
        self.clock.advance(seconds + 60 * minutes + 3600 * hours)
        return await self.run()

    def delivered_to(self, address: str) -> list[EmailMessage]:
        """The messages that this address received, in order; empty (false) if none."""
        sent = {(e.token, e.sha256): e for e in self.provider.ledger.entries}
        found: list[EmailMessage] = []
        for entry in sent.values():
            if address in entry.recipients:
                data = next(c.data for c in self.provider.calls if c.token == entry.token)
                found.append(message_from_bytes(data, policy=policy.default))
        return found

    async def all(self) -> list[Delivery]:
        """Every delivery, the newest first."""
        return list((await self.homing.store.page(Query(), limit=1000)).items)

    async def dead(self) -> list[Delivery]:
        """The dead letters: what waits for a person."""
        query = Query(facets=(Facet(state="failed"),))
        return list((await self.homing.store.page(query, limit=1000)).items)


class SyncOutbox:
    """The same for tests without an event loop: your code uses `homing.sync`."""

    def __init__(self, homing: Homing | None = None) -> None:
        self._outbox = Outbox(homing)
        self.homing = self._outbox.homing
        self.clock = self._outbox.clock
        self.provider = self._outbox.provider
        self.answer = self._outbox.answer
        self.delivered_to = self._outbox.delivered_to

    def __enter__(self) -> Self:
        self._outbox.replace()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.homing.sync.stop()
        self._outbox.restore()

    def run(self) -> int:
        """Attempt all that is due now. Returns the number of attempts."""
        return self._do(self._outbox.run)

    def advance(self, *, seconds: float = 0, minutes: float = 0, hours: float = 0) -> int:
        """Let time pass, then attempt all that has become due."""
        self.clock.advance(seconds + 60 * minutes + 3600 * hours)
        return self.run()

    def all(self) -> list[Delivery]:
        """Every delivery, the newest first."""
        return self._do(self._outbox.all)

    def dead(self) -> list[Delivery]:
        """The dead letters: what waits for a person."""
        return self._do(self._outbox.dead)

    def _do(self, act: Callable[[], Coroutine[Any, Any, T]]) -> T:
        return self.homing.sync.run(act())
