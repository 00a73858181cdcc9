"""Limits on connections: the size of heads and trailers, waiting times, and their number.

uvicorn limits none of these by itself. A head that is too long is answered 431, one that arrives
too slowly 408, one connection too many 503; a peer that does not read its answer is disconnected.
"""

from __future__ import annotations

import asyncio
import functools
import resource
from typing import TYPE_CHECKING, Any

from homing.web.http.answers import LINE, PHRASES, Answer, RawHeaders, add_security
from homing.web.http.problems import CLOSE, problem

if TYPE_CHECKING:
    from uvicorn.protocols.http.h11_impl import H11Protocol as _Protocol
else:
    try:
        from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol as _Protocol
    except ImportError:  # slower, and always there
        from uvicorn.protocols.http.h11_impl import H11Protocol as _Protocol

CALLS_BACK = hasattr(_Protocol, "on_body")
STATUS_LINES = {
    status: f"HTTP/1.1 {status} {phrase}\r\n".encode() for status, phrase in PHRASES.items()
}
HEAD_BYTES = 32_768
HEAD_WITHIN_S = 10.0
READ_ANSWER_WITHIN_S = 30.0
MAX_CONNECTIONS = 1000
# Files that the process needs besides its connections.
OTHER_FILES = 64


def most_connections() -> int:
    """Fewer than the open files that are allowed, so that accepting a connection never fails."""
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return max(min(MAX_CONNECTIONS, files - OTHER_FILES), 8)


class Connection(_Protocol):
    """One client: uvicorn's protocol with our time limits."""

    most = MAX_CONNECTIONS
    head_within_s = HEAD_WITHIN_S
    read_answer_within_s = READ_ANSWER_WITHIN_S

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        # What has come since the end of a head, of a message, or of a piece of a body.
        self._head_bytes = 0
        self._in_head = True
        self._waiting: asyncio.TimerHandle | None = None
        self._unread: asyncio.TimerHandle | None = None
        self._idle: asyncio.TimerHandle | None = None
        self._idle_since_s = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)  # type: ignore[arg-type] # a stream's transport, as uvicorn has it
        if len(self.connections) > self.most:
            self._refuse(503, "too many connections; try again later")
            return
        self._waiting = self.loop.call_later(self.head_within_s, self._too_slow)

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        self.resume_writing()
        if self._idle is not None:
            self._idle.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        self._head_bytes += len(data)
        too_long = self._head_bytes > HEAD_BYTES
        if too_long and self._reading_head() and not self._head_ends_early(data):
            self._refuse_fields()
            return
        super().data_received(data)
        if not self._reading_head():
            if not CALLS_BACK:
                self._head_bytes = 0  # h11 limits what comes after the head itself
            self._stop_waiting()
        elif self._waiting is None and not self.transport.is_closing():
            self._waiting = self.loop.call_later(self.head_within_s, self._too_slow)
        if self._head_bytes > HEAD_BYTES:
            self._refuse_fields()

    # httptools alone calls the methods `on_…`: with h11 everything takes ASGI's own way.

    def on_message_begin(self) -> None:
        super().on_message_begin()  # type: ignore[misc] # httptools' protocol has it
        self._in_head = True

    def on_header(self, name: bytes, value: bytes) -> None:
        """As uvicorn's, in one call a header. Trailers are dropped: it would add them."""
        if self._in_head:
            name = name.lower()
            if name == b"expect" and value.lower() == b"100-continue":
                self.expect_100_continue = True
            self.headers.append((name, value))

    def on_body(self, body: bytes) -> None:
        super().on_body(body)  # type: ignore[misc] # httptools' protocol has it
        self._head_bytes = 0

    def on_message_complete(self) -> None:
        super().on_message_complete()  # type: ignore[misc] # httptools' protocol has it
        self._head_bytes = 0

    def on_headers_complete(self) -> None:
        super().on_headers_complete()  # type: ignore[misc] # httptools' protocol has it
        self._in_head = False
        self._head_bytes = 0
        scope: dict[str, Any] = self.scope  # type: ignore[assignment] # with a word of our own
        scope[LINE] = WholeMessages(self, self.cycle)

    def on_response_complete(self) -> None:
        """As uvicorn's, but the timer of an idle connection is set anew when it rings, not with
        every request: for a busy one it rings once in a while."""
        if not CALLS_BACK:
            super().on_response_complete()  # h11 begins its next cycle there
            return
        self.server_state.total_requests += 1
        if self.transport.is_closing():
            return
        self.flow.resume_reading()
        if self.pipeline:  # type: ignore[attr-defined] # httptools' protocol has it
            self._start_asgi_task(*self.pipeline.pop())  # type: ignore[attr-defined] # as above
            return
        self._idle_since_s = self.loop.time()
        if self._idle is None:
            self._idle = self.loop.call_later(self.timeout_keep_alive, self._look_whether_idle)

    def _look_whether_idle(self) -> None:
        self._idle = None
        if self.transport.is_closing() or not self._reading_head():
            return
        rest_s = self._idle_since_s + self.timeout_keep_alive - self.loop.time()
        if self._waiting is not None:  # a head is coming, and has a limit of its own
            rest_s = max(rest_s, self.head_within_s)
        if rest_s > 0:
            self._idle = self.loop.call_later(rest_s, self._look_whether_idle)
        else:
            self.transport.close()

    def send_400_response(self, msg: str) -> None:
        del msg
        self._refuse(400, "this is not a valid HTTP/1.1 request")

    def pause_writing(self) -> None:
        super().pause_writing()
        self._unread = self.loop.call_later(self.read_answer_within_s, self.transport.abort)

    def resume_writing(self) -> None:
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None
        super().resume_writing()

    def _reading_head(self) -> bool:
        cycle: Any = self.cycle  # there is none before the first head
        return cycle is None or bool(cycle.response_complete)

    def _may_have_answered(self) -> bool:
        """An answer has begun, or pipelined requests (httptools) wait for the end of one."""
        waiting: object = getattr(self, "pipeline", None)
        return not self._reading_head() and bool(waiting or self.cycle.response_started)

    def _head_ends_early(self, data: bytes) -> bool:
        """The head may be short and only the body behind it long."""
        end = data.find(b"\r\n\r\n")
        return end >= 0 and self._head_bytes - len(data) + end <= HEAD_BYTES

    def _too_slow(self) -> None:
        self._waiting = None
        if self._head_bytes:
            self._refuse(408, f"the head did not come within {self.head_within_s:g} seconds")
        else:
            self.transport.close()

    def _stop_waiting(self) -> None:
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None

    def _refuse_fields(self) -> None:
        self._refuse(431, f"the head or the trailers are longer than {HEAD_BYTES:,} bytes")

    def _refuse(self, status: int, detail: str) -> None:
        if self.transport.is_closing():
            return
        if self._may_have_answered():
            self.transport.close()  # a refusal would be read as a part of the answer
            return
        answer = problem(status, detail=detail)
        headers = [pair for pair in answer.all_headers() if pair != CLOSE] + [CLOSE]
        add_security(headers)
        self.transport.write(_head(status, headers) + bytes(answer.body))
        self.transport.close()


class WholeMessages:
    """One request of a connection, taken and answered whole.

    uvicorn checks every header, which here are constants of ours, and writes each piece by
    itself: a fifth of what a small request costs.
    """

    __slots__ = ("_connection", "_cycle")

    def __init__(self, connection: Connection, cycle: Any) -> None:
        self._connection = connection
        self._cycle = cycle

    def body(self) -> bytes | None:
        cycle = self._cycle
        if cycle.more_body or cycle.disconnected or cycle.waiting_for_100_continue:
            return None
        body, cycle.body = bytes(cycle.body), bytearray()
        return body

    def take(self, answer: Answer) -> bool:
        connection, cycle = self._connection, self._cycle
        if cycle.response_started or cycle.disconnected or connection.flow.write_paused:
            return False
        if cycle.keep_alive and not answer.extra:
            begin = _usual_head(answer.status_code, answer.kind)
            date = connection.server_state.default_headers
            head = b"%b%bcontent-length: %d\r\n\r\n" % (begin, _lines(date), len(answer.body))
        else:
            head = self._unusual_head(answer)
        cycle.response_started = cycle.response_complete = True
        cycle.waiting_for_100_continue = False
        is_head = cycle.scope["method"] == "HEAD"
        connection.transport.write(head if is_head else head + bytes(answer.body))
        cycle.message_event.set()
        if not cycle.keep_alive:
            connection.transport.close()
        cycle.on_response()
        # The scope refers to this and this to the scope: without the cycle both are freed at once.
        del cycle.scope[LINE]
        return True

    def _unusual_head(self, answer: Answer) -> bytes:
        headers = [*self._connection.server_state.default_headers, *answer.all_headers()]
        add_security(headers)
        if CLOSE in answer.extra:
            self._cycle.keep_alive = False
        elif not self._cycle.keep_alive:
            headers.append(CLOSE)
        return _head(answer.status_code, headers)


def _head(status: int, headers: RawHeaders) -> bytes:
    return b"%b%b\r\n" % (STATUS_LINES[status], _lines(headers))


def _lines(headers: RawHeaders) -> bytes:
    return b"".join([b"%b: %b\r\n" % pair for pair in headers])


@functools.lru_cache(maxsize=64)
def _usual_head(status: int, kind: bytes) -> bytes:
    """All that answers of a kind have in common, which is all but their length and the date."""
    headers: RawHeaders = [(b"content-type", kind)]
    add_security(headers)
    return STATUS_LINES[status] + _lines(headers)
