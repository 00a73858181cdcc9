"""T14: long, slow, malformed and oversized requests over real sockets hold nothing for long."""

from __future__ import annotations

import functools
import queue
import re
import select
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from homing.runtime.app import Homing
from homing.web.application import Application, application
from homing.web.http.bodies import Bodies
from homing.web.http.connection import HEAD_BYTES, Connection
from tests.unit.cli.programs import until
from tests.unit.web.conftest import OPEN
from tests.unit.web.served import Served, homing_serve, in_thread

SOON_S = 0.3
BODY_WITHIN_S = 1.0
PATIENCE_S = 30.0
KEEP_ALIVE_S = 2
POST = (
    b"POST /api/v1/deliveries HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    b"Idempotency-Key: k\r\n"
)
BODY = b'{"to":["ok@stub.test"],"text":"x"}'


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    """The real server, with little patience for bodies."""

    async def make() -> Application:
        return application(Homing("memory:", provider="stub:"), OPEN)

    with pytest.MonkeyPatch.context() as set_to:
        set_to.setattr("homing.web.serving.most_connections", lambda: 20)
        set_to.setattr("homing.web.serving.KEEP_ALIVE_S", KEEP_ALIVE_S)
        impatient = functools.partial(Bodies, patience_s=BODY_WITHIN_S)
        set_to.setattr("homing.web.application.Bodies", impatient)
        with in_thread(make) as served:
            yield served


@pytest.fixture
def impatient(served: Served, monkeypatch: pytest.MonkeyPatch) -> Served:
    """For heads and for who does not read, too; where this is not asked for, a busy machine may
    be slow."""
    monkeypatch.setattr(Connection, "head_within_s", SOON_S)
    monkeypatch.setattr(Connection, "read_answer_within_s", SOON_S)
    return served


def talk(served: Served, *pieces: bytes, pause_s: float = 0.0) -> bytes:
    """Send piece by piece, then hear everything until the server hangs up.

    In a pause it listens: who is answered before the end says no more.
    """
    with served.connect(timeout_s=PATIENCE_S) as line:
        try:
            for piece in pieces:
                line.sendall(piece)
                if pause_s and select.select([line], [], [], pause_s)[0]:
                    break
        except (BrokenPipeError, ConnectionResetError):
            pass  # refused while we were talking
        return hear(line)


def hear(line: socket.socket) -> bytes:
    heard = b""
    try:
        while piece := line.recv(65536):
            heard += piece
    except ConnectionResetError:
        pass
    return heard


def status_of(heard: bytes) -> int:
    return int(heard.split(b" ", 2)[1]) if heard else 0


def stored(served: Served) -> int:
    return len(served.call("GET", "/api/v1/deliveries").json()["items"])


class TestHead:
    @pytest.mark.parametrize(
        "head",
        [
            b"GET /" + b"x" * HEAD_BYTES + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
            b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * HEAD_BYTES + b"\r\n\r\n",
            b"GET / HTTP/1.1\r\nHost: localhost\r\n" + b"X: y\r\n" * (HEAD_BYTES // 6) + b"\r\n",
            POST + b"X: " + b"x" * 300_000 + b"\r\n\r\n",
        ],
        ids=["url", "header", "headers", "huge"],
    )
    @pytest.mark.parametrize("size", [400_000, 8_000])
    def test_a_long_one_is_refused(self, served: Served, head: bytes, size: int) -> None:
        """In one piece or in many."""
        pieces = [head[start : start + size] for start in range(0, len(head), size)]
        heard = talk(served, *pieces)
        # A peer that still sends may miss the answer; it is cut off all the same.
        assert status_of(heard) in (431, 400, 0)
        if heard:
            assert b"application/problem+json" in heard
            assert b"x-content-type-options: nosniff" in heard
        assert served.call("GET", "/healthz").status == 200

    def test_one_that_just_fits_is_served(self, served: Served) -> None:
        head = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nX: "
        filler = b"x" * (HEAD_BYTES - len(head) - 8)
        assert status_of(talk(served, head + filler + b"\r\n\r\n")) == 200

    def test_a_short_head_with_a_long_body_is_served(self, served: Served) -> None:
        body = b'{"to":["ok@stub.test"],"text":"x"' + b" " * 200_000 + b"}"
        head = POST + b"Connection: close\r\nContent-Length: %d\r\n\r\n" % len(body)
        assert status_of(talk(served, head + body)) in (200, 202)

    def test_a_slow_one_is_not_waited_for(self, impatient: Served) -> None:
        heard = talk(impatient, b"GET /healthz HTTP/1.1\r\nHost: loc")
        assert status_of(heard) == 408

    def test_a_byte_now_and_then_does_not_help(self, impatient: Served) -> None:
        """Slowloris: the time is for the whole head, which else would be served in the end."""
        drops = [bytes([byte]) for byte in b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"]
        heard = talk(impatient, *drops, pause_s=0.05)
        assert status_of(heard) in (408, 0)

    def test_the_second_request_of_a_connection_is_bounded_too(
        self, served: Served, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        first = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
        with served.connect(timeout_s=PATIENCE_S) as line:
            line.sendall(first)
            assert status_of(line.recv(65536)) == 200
            monkeypatch.setattr(Connection, "head_within_s", SOON_S)
            line.sendall(b"GET /hea")
            assert status_of(hear(line)) == 408

    def test_an_answer_to_head_has_no_body(self, served: Served) -> None:
        ask = b"HEAD /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
        last = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
        heard = talk(served, ask + last)
        assert heard.count(b"content-length: 29") == 2
        assert heard.count(b'"status":"ok"') == 1

    def test_who_asks_to_be_let_go_is_let_go(self, served: Served) -> None:
        for head in (b"HTTP/1.0\r\n", b"HTTP/1.1\r\nConnection: close\r\n"):
            heard = talk(served, b"GET /healthz " + head + b"Host: localhost\r\n\r\n")
            assert status_of(heard) == 200
            assert b"connection: close" in heard

    def test_a_body_that_waits_for_a_word_gets_it(self, served: Served) -> None:
        with served.connect(timeout_s=PATIENCE_S) as line:
            line.sendall(POST + b"Expect: 100-continue\r\nContent-Length: 34\r\n\r\n")
            assert status_of(line.recv(65536)) == 100
            line.sendall(BODY)
            assert status_of(line.recv(65536)) in (200, 202)

    def test_silence_is_hung_up_on(self, impatient: Served) -> None:
        assert talk(impatient) == b""

    def test_pipelined_requests_are_answered_in_order(self, served: Served) -> None:
        one = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
        last = b"GET /nope HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
        heard = talk(served, one * 3 + last)
        assert re.findall(rb"HTTP/1.1 (\d+)", heard) == [b"200", b"200", b"200", b"404"]


CHUNKED = b"Transfer-Encoding: chunked\r\n\r\n%x\r\n%b\r\n0\r\n" % (len(BODY), BODY)
UNENDING = [
    pytest.param(POST + CHUNKED, b"X: y\r\n", id="trailers"),
    pytest.param(POST + CHUNKED + b"X: ", b"y", id="one-trailer"),
    pytest.param(POST + CHUNKED, b"x", id="name-of-a-trailer"),
    pytest.param(POST + b"Transfer-Encoding: chunked\r\n\r\n1;", b"x", id="chunk-extension"),
    pytest.param(
        b"GET /api/v1/events HTTP/1.1\r\nHost: localhost\r\n" + CHUNKED,
        b"X: y\r\n",
        id="trailers-beside-an-answer",
    ),
    pytest.param(
        b"GET /api/v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n"
        b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n",
        b"X: y\r\n",
        id="next-head-beside-an-answer",
    ),
]


class TestTrailers:
    @pytest.mark.parametrize(("begin", "field"), UNENDING)
    def test_unending_fields_are_cut_off(self, served: Served, begin: bytes, field: bytes) -> None:
        """Wherever they stand. Who reads them all answers 408 in the end, or goes on talking."""
        block = field * (40_000 // len(field))
        heard = talk(served, begin, *[block] * 100)
        assert status_of(heard) != 408
        assert served.call("GET", "/healthz").status == 200

    def test_they_are_no_headers(self, served: Served) -> None:
        head = POST.replace(b"Idempotency-Key: k\r\n", b"Connection: close\r\n")
        heard = talk(served, head + CHUNKED + b"Idempotency-Key: trailer\r\n\r\n")
        assert status_of(heard) == 400
        assert b"Idempotency-Key" in heard

    def test_a_short_one_is_ignored(self, served: Served) -> None:
        head = POST + b"Connection: close\r\n" + CHUNKED
        assert status_of(talk(served, head, b"X-Checksum: 1\r\n\r\n")) in (200, 202)

    def test_small_chunks_may_be_many(self, served: Served) -> None:
        """What frames them is more than a head may have."""
        body = BODY + b" " * 20_000
        chunks = b"".join(b"1\r\n%c\r\n" % byte for byte in body)
        head = POST + b"Connection: close\r\nTransfer-Encoding: chunked\r\n\r\n"
        assert status_of(talk(served, head, chunks, b"0\r\n\r\n")) in (200, 202)


class TestMalformed:
    @pytest.mark.parametrize(
        "request_bytes",
        [
            b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
            b"hello\r\n\r\n",
            b"GET\r\n\r\n",
            b"GET /healthz HTTP/1.1\r\nHost localhost\r\n\r\n",
            b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: a\x00b\r\n\r\n",
            b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX : b\r\n\r\n",
            POST + b"Content-Length: -1\r\n\r\n" + BODY,
            POST + b"Content-Length: 1e3\r\n\r\n" + BODY,
            POST + b"Content-Length: 34\r\nContent-Length: 35\r\n\r\n" + BODY,
            POST + b"Content-Length: 34\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
            POST + b"Transfer-Encoding: chunked, identity\r\n\r\n" + BODY,
            POST + b"Transfer-Encoding: xchunked\r\n\r\n" + BODY,
            POST + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n" + BODY,
            POST + b"Transfer-Encoding: chunked\r\n\r\n-1\r\n" + BODY,
        ],
    )
    def test_it_is_refused_and_hung_up_on(self, served: Served, request_bytes: bytes) -> None:
        """Two readers of one request must not see two different ones (smuggling)."""
        before = stored(served)
        heard = talk(served, request_bytes)
        assert status_of(heard) in (400, 408, 501, 0), heard
        assert b"HTTP/1.1 2" not in heard
        assert stored(served) == before

    def test_the_refusal_is_one_of_ours(self, served: Served) -> None:
        heard = talk(served, b"hello\r\n\r\n")
        assert b"content-type: application/problem+json" in heard
        assert b"content-security-policy: default-src 'none'" in heard
        assert b"connection: close" in heard
        assert b"uvicorn" not in heard.lower()

    def test_an_upgrade_is_not_offered(self, served: Served) -> None:
        heard = talk(
            served,
            b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\n"
            b"Connection: Upgrade, close\r\nSec-WebSocket-Key: x\r\n"
            b"Sec-WebSocket-Version: 13\r\n\r\n",
        )
        assert status_of(heard) == 200


class TestBody:
    def test_one_that_stops_is_not_waited_for(self, served: Served) -> None:
        heard = talk(served, POST + b"Content-Length: 100\r\n\r\n" + BODY[:10])
        assert status_of(heard) == 408
        assert b'"field":"body"' in heard

    def test_one_that_never_begins_is_not_waited_for(self, served: Served) -> None:
        assert status_of(talk(served, POST + b"Content-Length: 34\r\n\r\n")) == 408

    def test_one_far_too_long_is_refused_before_it_is_sent(self, served: Served) -> None:
        head = POST + b"Expect: 100-continue\r\nContent-Length: 1000000000000\r\n\r\n"
        heard = talk(served, head)
        assert status_of(heard) == 413
        assert b"100 Continue" not in heard

    def test_who_leaves_in_the_middle_leaves_nothing(self, served: Served) -> None:
        before = stored(served)
        with served.connect() as line:
            line.sendall(POST + b"Content-Length: 34\r\n\r\n" + BODY[:20])
        assert stored(served) == before

    def test_who_leaves_before_the_answer_may_ask_again(self, served: Served) -> None:
        with served.connect() as line:
            line.sendall(POST + b"Content-Length: 34\r\n\r\n" + BODY)
        answer = served.call("POST", "/api/v1/deliveries", BODY, {"Idempotency-Key": "k"})
        assert answer.status in (200, 202)
        listed = served.call("GET", "/api/v1/deliveries?key=k").json()["items"]
        assert len(listed) == 1


class TestConnections:
    def test_one_too_many_is_told_so(self, served: Served) -> None:
        lines = [served.connect(timeout_s=PATIENCE_S) for _ in range(20)]
        try:
            heard = talk(served, b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert status_of(heard) == 503
            assert b"retry-after: 5" in heard
        finally:
            for line in lines:
                line.close()
        # Until the connections that were closed are forgotten.
        ask = b"GET /healthz HTTP/1.1\r\nConnection: close\r\nHost: a\r\n\r\n"
        until(lambda: status_of(talk(served, ask)) == 200, what="a free place")

    def test_who_does_not_read_is_cut_off(
        self, impatient: Served, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """An answer that nobody takes may not stay in memory."""
        ask = b"GET /api/v1/openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n"
        ended: queue.Queue[tuple[str, int]] = queue.Queue()
        end = Connection.connection_lost

        def told(self: Connection, error: Exception | None) -> None:
            ended.put(self.transport.get_extra_info("peername"))
            end(self, error)

        monkeypatch.setattr(Connection, "connection_lost", told)
        with socket.socket() as line:
            line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            line.settimeout(PATIENCE_S)
            line.connect(("127.0.0.1", impatient.port))
            line.sendall(ask * 50)
            while ended.get(timeout=PATIENCE_S) != line.getsockname():
                pass  # the end of somebody else
            heard = hear(line)
        assert 0 < heard.count(b"HTTP/1.1 200") < 50


def test_without_httptools_and_uvloop_the_same_bounds_hold(tmp_path: Path) -> None:
    """Both are quicker, neither is needed."""
    for name in ("httptools", "uvloop"):
        (tmp_path / f"{name}.py").write_text("raise ImportError\n")
    with homing_serve(tmp_path, store="memory:", shadow=str(tmp_path)) as plain:
        assert plain.post("k").status == 202
        assert plain.call("HEAD", "/healthz").body == b""
        heard = talk(plain, b"GET /" + b"x" * HEAD_BYTES * 2)
        assert status_of(heard) in (431, 400)
        assert b"application/problem+json" in heard
        assert status_of(talk(plain, b"hello\r\n\r\n")) == 400
        assert status_of(talk(plain, POST + CHUNKED, *[b"X: y\r\n" * 8_000] * 100)) in (400, 431, 0)
        one = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
        last = b"GET /nope HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
        heard = talk(plain, one * 2 + last)
        assert re.findall(rb"HTTP/1.1 (\d+)", heard) == [b"200", b"200", b"404"]
