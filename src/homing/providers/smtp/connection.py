"""One open session: asyncio around the protocol core, with a deadline for every command."""

from __future__ import annotations

import asyncio
import math
from collections import deque
from typing import Protocol

from homing.providers.smtp.exchange import Awaiting, Cause, Exchange
from homing.providers.smtp.features import Features
from homing.providers.smtp.protocol import SERVICE_CLOSING, Dialogue
from homing.providers.smtp.sending import Sending
from homing.providers.smtp.url import SmtpSettings

QUIT_TIMEOUT_S = 2.0
# A server that needs longer for a message gets no envelope after an unanswered dot: that envelope
# would wait there and could no longer go to another connection.
PIPELINE_BELOW_S = 0.25
# A connection that was idle for this long may have been dropped without notice.
STALE_AFTER_S = 1.0
# A message is begun on so many connections, if it is not to blame for the end of those before.
MAX_TRIES = 5


class Supply(Protocol):
    """Where a connection gets its work, and whom it tells what became of it."""

    def next_for(self, features: Features) -> Sending | None:
        """The next that can go to a server with these features."""

    def give_back(self, sending: Sending) -> None:
        """Certainly not sent, and not because of the letter: let another connection try."""

    def answered(self, latency_s: float) -> None:
        """A message was answered this long after its final dot."""

    def closed_after(self, messages: int) -> None:
        """The server took so many messages of a connection and closed it at the next one."""

    def flush_soon(self, connection: Connection) -> None:
        """Call its `flush` soon, together with those of others."""

    def free(self, connection: Connection) -> None: ...

    def gone(self, connection: Connection) -> None: ...


class Connection(asyncio.Protocol):
    """A session whose handshake is done; it serves sends while it is `alive`.

    `answered` counts the transactions that the server has ended. `lost` is done when its socket is
    closed, which is later if QUIT is sent first.
    """

    def __init__(
        self,
        transport: asyncio.Transport,
        features: Features,
        settings: SmtpSettings,
        supply: Supply,
        most: int,
    ) -> None:
        self.features = features
        self.alive = True
        self._transport = transport
        self._loop = asyncio.get_running_loop()
        self._dialogue = Dialogue(pipelining=features.pipelining)
        self._sendings: deque[Sending] = deque()
        self._supply = supply
        self.answered = 0
        self._may_take = most
        self._taken = 0
        self._rested_from_s = math.inf
        self._latency_s = math.inf
        self._timeouts_s = _timeouts_s(settings)
        self._shortest_s = min(self._timeouts_s.values())
        self._milestone = -1
        self._awaiting_from_s = 0.0
        self._undrained_bytes = 0
        self._timer: asyncio.TimerHandle | None = None
        self.lost: asyncio.Future[None] = self._loop.create_future()
        # Tells at once when everything has left: see HOLD_DOT_ABOVE_BYTES.
        transport.set_write_buffer_limits(high=1, low=0)
        transport.set_protocol(self)
        self._set_timer(self._shortest_s)

    def serve(self) -> None:
        """Take the work there is."""
        if self.alive:
            self._go_on(self._loop.time())

    def keep_to(self, messages: int) -> None:
        """Take no more than so many in all."""
        self._may_take = min(self._may_take, messages - self._taken)

    def withdraw(self, sending: Sending) -> None:
        """Cut the connection if no send waits for it, or before an unwanted message goes out.

        A server that has fallen silent would be waited for until its deadline.
        """
        if not self.alive:
            return
        is_first = self._sendings and self._sendings[0] is sending
        unsent = sending.exchange is not None and not sending.exchange.dot_out
        if (is_first and unsent) or all(one.over for one in self._sendings):
            self._cut("cut")

    async def close(self, grace_s: float) -> None:
        """Let sends under way end within the grace, then send QUIT."""
        self._may_take = 0
        if self.alive and self._dialogue.idle:
            self._quit()
        elif self.alive and not self._sendings:
            self._cut("cut")  # only a reset is under way
        await asyncio.wait({self.lost}, timeout=grace_s)
        if not self.lost.done():
            self._cut("cut")
            await self.lost

    def data_received(self, data: bytes) -> None:
        if not self.alive:
            return
        dialogue = self._dialogue
        now_s = self._loop.time()
        for exchange in dialogue.receive(data):
            sending = self._sendings.popleft()
            if exchange.dot_out:
                self._latency_s = now_s - self._awaiting_from_s
                self._supply.answered(self._latency_s)
            self._end(sending, exchange)
            self.answered += 1
        if dialogue.closing:
            self._cut("cut" if dialogue.broken is None else "garbled")
        else:
            self._go_on(now_s)

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
        if self._dialogue.awaiting == "drain":
            self._undrained_bytes = self._transport.get_write_buffer_size()
            if not self._undrained_bytes:
                self._content_left()

    def _go_on(self, now_s: float) -> None:
        """Take the next message if there is room, say what there is to say, watch the clock."""
        dialogue = self._dialogue
        if dialogue.has_room and self._may_take > 0:
            self._take_next()
        if dialogue.out:
            self._supply.flush_soon(self)
        if dialogue.milestone != self._milestone:
            self._milestone = dialogue.milestone
            self._awaiting_from_s = now_s
        if not dialogue.queue:
            self._rest()

    def _take_next(self) -> None:
        """One message, as nothing fits behind an envelope."""
        dialogue, features = self._dialogue, self.features
        if dialogue.queue and self._latency_s >= PIPELINE_BELOW_S:
            return
        while (sending := self._supply.next_for(features)) is not None:
            exchange = sending.begin(self, features)
            if exchange is not None:
                self._may_take -= 1
                self._taken += 1
                self._sendings.append(sending)
                dialogue.take(exchange)
                return

    def _content_left(self) -> None:
        self._dialogue.content_left()
        self._go_on(self._loop.time())

    def _rest(self) -> None:
        if self._may_take <= 0:
            self._quit()
        else:
            self._rested_from_s = self._awaiting_from_s
            self._supply.free(self)

    def _end(self, sending: Sending, exchange: Exchange) -> None:
        going_away = not exchange.dot_out and exchange.replies[-1].code == SERVICE_CLOSING
        if not (going_away and self._give_back(sending)):
            sending.end(exchange)

    def _give_back(self, sending: Sending) -> bool:
        """The server has closed the connection at this message: let another one try, if it may."""
        if self.answered:
            self._supply.closed_after(self.answered)
        was_stale = self._awaiting_from_s - self._rested_from_s > STALE_AFTER_S
        if sending.tries >= MAX_TRIES or not (self.answered or was_stale):
            return False
        self._supply.give_back(sending)
        return True

    def _set_timer(self, after_s: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_later(after_s, self._look_at_clock)

    def _look_at_clock(self) -> None:
        """Each answer has its time, however slowly the bytes arrive.

        Looking now and then is cheaper than a timer for every command of every message. Nothing
        is seen late: no time is shorter than the one after which it looks again.
        """
        if not self.alive:
            self._transport.abort()
            return
        awaiting = self._dialogue.awaiting
        left_s = self._awaiting_from_s + self._timeouts_s[awaiting] - self._loop.time()
        if left_s > 0:
            self._set_timer(min(left_s, self._shortest_s))
        elif awaiting is None:
            self._quit()
        elif awaiting == "drain" and self._has_drained():
            self._awaiting_from_s = self._loop.time()
            self._set_timer(self._shortest_s)
        else:
            self._cut("timeout")

    def _has_drained(self) -> bool:
        """Whether some of the content has left since it was last looked at."""
        before_bytes, self._undrained_bytes = (
            self._undrained_bytes,
            self._transport.get_write_buffer_size(),
        )
        return self._undrained_bytes < before_bytes

    def _quit(self) -> None:
        self._transport.write(b"QUIT\r\n")
        self._retire("cut")
        self._set_timer(QUIT_TIMEOUT_S)

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
        sendings = list(self._sendings)
        self._sendings.clear()
        exchanges = self._dialogue.lose(cause)
        self._supply.gone(self)
        for position, (sending, exchange) in enumerate(zip(sendings, exchanges, strict=True)):
            unheard = not exchange.dot_out and not exchange.replies and not sending.over
            if unheard and position and sending.tries < MAX_TRIES:
                self._supply.give_back(sending)  # another message has broken the connection
            elif not (unheard and cause != "timeout" and self._give_back(sending)):
                sending.end(exchange)


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
