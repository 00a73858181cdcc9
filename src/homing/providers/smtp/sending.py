"""A prepared send: a letter with a place in the pool, from `start` to its outcome."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

from msgspec.structs import replace

from homing.domain.failure import TIMED_OUT, Failure
from homing.ports import Accepted
from homing.providers.smtp.classification import judge
from homing.providers.smtp.exchange import Exchange
from homing.providers.smtp.features import Features
from homing.providers.smtp.letter import Letter, fit
from homing.providers.smtp.recent_success import RecentSuccess
from homing.providers.smtp.transactions import Transactions, postponed


class Queue(Protocol):
    """Where sends wait for a connection."""

    success: RecentSuccess

    def submit(self, sending: Sending) -> None: ...

    def give_back(self, sending: Sending) -> None:
        """Certainly not sent, and not because of the letter: let another connection try."""

    def release(self) -> None:
        """Its place is free."""


class Line(Protocol):
    """The connection that a send is on."""

    def withdraw(self, sending: Sending) -> None:
        """Its outcome is no longer waited for, and what is not sent yet must not be sent."""


class Sending:
    """`commit`, `start` or `abandon` it, once.

    `tries` counts the connections that a transaction was begun on.
    """

    __slots__ = (
        "_earlier",
        "_fits_to",
        "_most",
        "_queue",
        "_spent",
        "_told",
        "exchange",
        "letter",
        "line",
        "over",
        "tries",
    )

    def __init__(self, queue: Queue, letter: Letter, fits_to: Features | None = None) -> None:
        self.letter = letter
        self.over = False
        self.tries = 0
        self.exchange: Exchange | None = None
        self.line: Line | None = None
        self._queue = queue
        self._fits_to = fits_to
        self._most = 0
        self._earlier: Transactions | None = None
        self._told: Callable[[Accepted | Failure], None] | None = None
        self._spent = False

    async def commit(self) -> Accepted | Failure:
        """Send it. `maybe_sent` is set only when the final dot may be out and no answer came."""
        answer: asyncio.Future[Accepted | Failure] = asyncio.get_running_loop().create_future()

        def told(outcome: Accepted | Failure) -> None:
            if not answer.done():  # the caller has been cancelled, and does not know it yet
                answer.set_result(outcome)

        self.start(told)
        try:
            return await answer
        except asyncio.CancelledError:
            self.withdraw()
            raise

    def start(self, told: Callable[[Accepted | Failure], None]) -> None:
        """As `commit`, for a caller that does not wait."""
        self._spend()
        self._told = told
        self._queue.submit(self)

    def withdraw(self) -> bool:
        """Whether the server may have it: the final dot is out."""
        maybe_sent = self.exchange is not None and self.exchange.dot_out
        if self.over or not self._spent:
            return maybe_sent
        if self._earlier is not None and self._earlier.accepted_some:
            # What is known of the other recipients would be lost with it.
            self.settle(
                self._earlier.conclude(
                    Failure(TIMED_OUT, detail="no answer in time", maybe_sent=maybe_sent),
                    self.letter.recipients,
                )
            )
        else:
            self.over = True
            self._queue.release()
        if self.exchange is not None and self.line is not None:
            self.exchange.withdrawn = True
            self.line.withdraw(self)
        return maybe_sent

    async def abandon(self) -> None:
        """Nothing of this message was sent to the server."""
        self._spend()
        self.over = True
        self._queue.release()

    def fits(self, features: Features) -> bool:
        """Whether all of it can go to a server with these features."""
        if features is not self._fits_to and fit(self.letter, features) is self.letter:
            self._fits_to = features
        return features is self._fits_to

    def begin(self, line: Line, features: Features) -> Exchange | None:
        """The next transaction; None when nothing of it can go to this server."""
        letter = self.letter
        if features is not self._fits_to:
            fitted = fit(letter, features)
            if isinstance(fitted, Failure):
                self.fail(fitted)
                return None
            letter = self.letter = fitted
        self.line = line
        self.tries += 1
        commands = letter.commands(features, self._most or features.max_recipients)
        exchange = self.exchange = Exchange(commands, letter.content)
        return exchange

    def end(self, exchange: Exchange) -> None:
        """The transaction is over: go on with the recipients that are left, or settle."""
        letter = self.letter
        tried = letter.recipients[: len(exchange.commands) - 2]
        outcome = judge(exchange, tried)
        if letter.refused:
            outcome = replace(outcome, refused=letter.refused | outcome.refused)
        late = postponed(exchange, tried) if outcome.refused else ()
        left = late + letter.recipients[len(tried) :]
        if not left and self._earlier is None:
            self.settle(outcome)
            return
        earlier = self._earlier = self._earlier or Transactions()
        if left and not self.over and _may_go_on(outcome, tried):
            earlier.add(outcome, left)
            if late:
                self._most = len(tried) - len(late)
            self.letter = replace(letter, recipients=left, refused={})
            self.exchange = self.line = None
            self.tries = 0
            self._queue.give_back(self)
            return
        untold = [recipient for recipient in tried + left if recipient not in outcome.refused]
        self.settle(earlier.conclude(outcome, untold))

    def settle(self, outcome: Accepted | Failure) -> None:
        if self.over:
            return
        self.over = True
        self._queue.release()
        if self._told is not None:
            self._told(self._queue.success.weigh(outcome))

    def fail(self, failure: Failure) -> None:
        """No transaction can be begun."""
        if self._earlier is not None:
            self.settle(self._earlier.conclude(failure, self.letter.recipients))
        else:
            self.settle(failure)

    def _spend(self) -> None:
        if self._spent:
            raise RuntimeError("a prepared send is committed or abandoned once")
        self._spent = True


def _may_go_on(outcome: Accepted | Failure, tried: tuple[str, ...]) -> bool:
    """Unless the whole failed for a reason that the others would meet as well."""
    if isinstance(outcome, Accepted):
        return True
    return outcome.disposition == "reject" and all(one in outcome.refused for one in tried)
