"""One open session: asyncio around the protocol core, with a total deadline for every phase."""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import Callable
from typing import Protocol

from homing.domain.failure import Failure
from homing.ports import Accepted
from homing.providers.smtp.classification import judge
from homing.providers.smtp.exchange import Awaiting, Cause, Exchange
from homing.providers.smtp.features import Features
from homing.providers.smtp.letter import Letter
from homing.providers.smtp.protocol import SERVICE_CLOSING, Dialogue
from homing.providers.smtp.url import SmtpSettings

QUIT_TIMEOUT_S = 2.0
# A server that needs longer for a message gets no envelope after an unanswered dot: that envelope
# would wait there and could no longer go to another connection.
PIPELINE_BELOW_S = 0.25
# A connection that was idle for this long may have been dropped without notice.
STALE_AFTER_S = 1.0


class Job:
    """A letter under way; `told` is called with its outcome, unless it was withdrawn."""

    __slots__ = ("_told", "exchange", "letter", "over", "tries")

    def __init__(self, letter: Letter, told: Callable[[Accepted | Failure], None]) -> None:
        self.letter = letter
        self.tries = 0
        self.exchange: Exchange | None = None
        self.over = False
        self._told = told

    def begin(self, features: Features) -> Exchange:
        self.tries += 1
        self.exchange = Exchange(self.letter.commands(features), self.letter.content)
        return self.exchange

    def withdraw(self) -> None:
        """The outcome is no longer waited for. A letter that is not sent yet is not sent."""
        self.over = True
        if self.exchange is not None:
            self.exchange.withdrawn = True

    def settle(self, outcome: Accepted | Failure) -> None:
        if not self.over:
            self.over = True
            self._told(outcome)


class Supply(Protocol):
    """Where a connection gets its work, and whom it tells what became of it."""

    def next_job(self) -> Job | None: ...

    def give_back(self, job: Job) -> None:
        """Certainly not sent, and not because of the letter: let another connection try."""

    def answered(self, latency_s: float) -> None:
        """A message was answered this long after its final dot."""

    def flush_soon(self, connection: Connection) -> None:
        """Call its `flush` soon, together with those of others."""

    def free(self, connection: Connection) -> None: ...

    def gone(self, connection: Connection) -> None: ...


class Connection(asyncio.Protocol):
    """A session whose handshake is done; it serves jobs while it is `alive`.

    `lost` is done when its socket is closed, which is later if QUIT is sent first.
    """

    def __init__(
        self,
        transport: asyncio.Transport,
        features: Features,
        settings: SmtpSettings,
        supply: Supply,
    ) -> None:
        self.features = features
        self.alive = True
        self._transport = transport
        self._loop = asyncio.get_running_loop()
        self._dialogue = Dialogue(pipelining=features.pipelining)
        self._jobs: deque[Job] = deque()
        self._supply = supply
        self._may_take = settings.messages_per_connection
        self._proven = False
        self._rested_from_s = math.inf
        self._latency_s = math.inf
        self._dot_out_at_s = 0.0
        self._timeouts_s = _timeouts_s(settings)
        self._milestone = -1
        self._deadline_s = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self.lost: asyncio.Future[None] = self._loop.create_future()
        # Tells at once when everything has left: see HOLD_DOT_ABOVE_BYTES.
        transport.set_write_buffer_limits(high=1, low=0)
        transport.set_protocol(self)

    def serve(self) -> None:
        """Take the work there is."""
        if self.alive:
            self._proven |= self._loop.time() - self._rested_from_s > STALE_AFTER_S
            self._go_on()

    async def close(self, grace_s: float) -> None:
        """Let sends under way end within the grace, then send QUIT."""
        self._may_take = 0
        if self.alive and self._dialogue.idle:
            self._quit()
        elif self.alive and all(job.over for job in self._jobs):
            self._cut("cut")  # their callers no longer wait
        await asyncio.wait({self.lost}, timeout=grace_s)
        if not self.lost.done():
            self._cut("cut")
            await self.lost

    def data_received(self, data: bytes) -> None:
        if not self.alive:
            return
        now_s = self._loop.time()
        for exchange in self._dialogue.receive(data):
            job = self._jobs.popleft()
            if exchange.dot_out:
                self._latency_s = now_s - self._dot_out_at_s
                self._supply.answered(self._latency_s)
            self._end(job, exchange)
            self._proven = True
        if self._dialogue.closing:
            self._cut("cut" if self._dialogue.broken is None else "garbled")
        else:
            self._go_on()

    def resume_writing(self) -> None:
        if self.alive and self._dialogue.awaiting == "drain":
            self._content_left()

    def connection_lost(self, _exc: Exception | None) -> None:
        self._retire("cut")
        if not self.lost.done():
            self.lost.set_result(None)

    def flush(self) -> None:
        """Write what there is to say."""
        if not self.alive:
            return
        self._transport.write(self._dialogue.outgoing())
        if self._dialogue.awaiting == "drain" and not self._transport.get_write_buffer_size():
            self._content_left()

    def _go_on(self) -> None:
        """Take the next message if there is room, say what there is to say, watch the clock."""
        dialogue, supply = self._dialogue, self._supply
        if self._has_room() and (job := supply.next_job()) is not None:
            self._may_take -= 1
            self._jobs.append(job)
            dialogue.take(job.begin(self.features))
        if dialogue.has_something_to_say:
            supply.flush_soon(self)
        if dialogue.milestone != self._milestone:
            self._watch()
        if dialogue.idle:
            self._rest()

    def _has_room(self) -> bool:
        """For one more message; never for two, as nothing fits behind an envelope."""
        if self._may_take <= 0 or not self._dialogue.has_room:
            return False
        return self._latency_s < PIPELINE_BELOW_S or self._dialogue.idle

    def _content_left(self) -> None:
        self._dialogue.content_left()
        if self._dialogue.closing:
            self._cut("cut")
        else:
            self._go_on()

    def _rest(self) -> None:
        if self._may_take <= 0:
            self._quit()
        else:
            self._rested_from_s = self._loop.time()
            self._supply.free(self)

    def _end(self, job: Job, exchange: Exchange) -> None:
        going_away = not exchange.dot_out and exchange.replies[-1].code == SERVICE_CLOSING
        if going_away and self._proven and job.tries == 1:
            self._supply.give_back(job)
        else:
            job.settle(judge(exchange, job.letter.recipients))

    def _watch(self) -> None:
        """A new phase: its deadline is for the whole phase, however slowly the bytes arrive."""
        now_s = self._loop.time()
        self._milestone = self._dialogue.milestone
        awaiting = self._dialogue.awaiting
        if awaiting == "dot":
            self._dot_out_at_s = now_s
        self._deadline_s = now_s + self._timeouts_s[awaiting]
        # A timer that comes too early only looks and sleeps again: that is cheaper than a new
        # one for every phase of every message.
        if self._timer is None or self._timer.when() > self._deadline_s:
            self._set_timer()

    def _set_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_at(self._deadline_s, self._ring)

    def _ring(self) -> None:
        if self._loop.time() < self._deadline_s:
            self._set_timer()
        elif not self.alive:
            self._transport.abort()
        elif self._dialogue.idle:
            self._quit()
        else:
            self._cut("timeout")

    def _quit(self) -> None:
        self._transport.write(b"QUIT\r\n")
        self._retire("cut")
        self._deadline_s = self._loop.time() + QUIT_TIMEOUT_S
        self._set_timer()

    def _cut(self, cause: Cause) -> None:
        self._transport.abort()
        self._retire(cause)

    def _retire(self, cause: Cause) -> None:
        """Out of service: each send gets its outcome, or is tried on another connection."""
        if self._timer is not None:
            self._timer.cancel()
        if not self.alive:
            return
        self.alive = False
        jobs = list(self._jobs)
        self._jobs.clear()
        exchanges = self._dialogue.lose(cause)
        self._supply.gone(self)
        for position, (job, exchange) in enumerate(zip(jobs, exchanges, strict=True)):
            # The connection has become stale, or another message has broken it.
            excused = position > 0 or (self._proven and cause != "timeout")
            unheard = not exchange.dot_out and not exchange.replies and not exchange.withdrawn
            if excused and unheard and job.tries == 1:
                self._supply.give_back(job)
            else:
                job.settle(judge(exchange, job.letter.recipients))


def _timeouts_s(settings: SmtpSettings) -> dict[Awaiting | None, float]:
    return {
        None: settings.idle_timeout_s,
        "mail": settings.command_timeout_s,
        "rcpt": settings.command_timeout_s,
        "data": settings.command_timeout_s,
        "drain": settings.data_timeout_s,
        "dot": settings.dot_timeout_s,
        "void": settings.command_timeout_s,
        "rset": settings.command_timeout_s,
    }
