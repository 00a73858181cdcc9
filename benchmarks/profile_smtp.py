"""CPU per mail of the SMTP client alone, in batches, beside bare sockets that check nothing.

Run it by `python -m benchmarks.profile_smtp`. It measures processor time, which says something on a
busy machine too; the lowest of several runs counts. The bare sockets send the same bytes in the
same number of writes; the bare protocol does so in asyncio, which is the least that a client in an
event loop can cost.
"""

import asyncio
import socket
import time
from collections.abc import Callable, Coroutine
from typing import Any, cast

from benchmarks.contest.mails import BODY, RECIPIENT, SENDER, SUBJECT
from homing.domain.failure import Failure
from homing.ports import Accepted, Envelope
from homing.providers.smtp import SmtpProvider
from tests.servers import smtp_sink

MAILS = 1600
BATCH = 16
CONNECTIONS = 8
RUNS = 8
DATA = (
    f"From: {SENDER}\r\nTo: {RECIPIENT}\r\nSubject: {SUBJECT}\r\n\r\n".encode()
    + BODY.replace("\n", "\r\n").encode()
)
ENVELOPE = f"MAIL FROM:<{SENDER}>\r\nRCPT TO:<{RECIPIENT}>\r\nDATA\r\n".encode()
CONTENT = DATA + b".\r\n"
# What each of two messages of a connection says, and how many lines answer it.
DIALOGUE = ((ENVELOPE, 3), (CONTENT + ENVELOPE, 4), (CONTENT, 1))


def bare_sockets(port: int) -> float:
    connections = [socket.create_connection(("127.0.0.1", port)) for _ in range(CONNECTIONS)]

    def hear(lines: int) -> None:
        for connection in connections:
            heard = 0
            while heard < lines:
                heard += connection.recv(4096).count(b"\n")

    def send(said: bytes, lines: int) -> None:
        for connection in connections:
            connection.sendall(said)
        hear(lines)

    hear(1)
    send(b"HELO me.test\r\n", 1)
    began_s = time.process_time()
    for _ in range(MAILS // BATCH):
        for said, lines in DIALOGUE:
            send(said, lines)
    spent_us = (time.process_time() - began_s) / MAILS * 1e6
    for connection in connections:
        connection.close()
    return spent_us


class _Bare(asyncio.Protocol):
    def __init__(self) -> None:
        self._rest = iter(((b"", 1), (b"HELO me.test\r\n", 1)))
        self._lines = 0
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)  # uvloop's is none by its class
        self._next()

    def data_received(self, data: bytes) -> None:
        self._lines -= data.count(b"\n")
        if self._lines <= 0:
            self._next()

    def batch(self) -> asyncio.Future[None]:
        self._rest = iter(DIALOGUE)
        self.done = asyncio.get_running_loop().create_future()
        self._next()
        return self.done

    def _next(self) -> None:
        said, self._lines = next(self._rest, (b"", 0))
        if said:
            self.transport.write(said)
        elif not self._lines:
            self.done.set_result(None)


async def bare_protocol(port: int) -> float:
    loop = asyncio.get_running_loop()
    made = [await loop.create_connection(_Bare, "127.0.0.1", port) for _ in range(CONNECTIONS)]
    connections = [protocol for _, protocol in made]
    for connection in connections:
        await connection.done
    began_s = time.process_time()
    for _ in range(MAILS // BATCH):
        for done in [connection.batch() for connection in connections]:
            await done
    spent_us = (time.process_time() - began_s) / MAILS * 1e6
    for connection in connections:
        connection.transport.close()
    return spent_us


async def client(port: int) -> float:
    smtp = SmtpProvider.from_url(f"smtp://127.0.0.1:{port}?tls=none&pool={CONNECTIONS}")
    await _send(smtp, BATCH * CONNECTIONS)  # until all connections are open and the server is known
    began_s = time.process_time()
    for _ in range(MAILS // BATCH):
        await _send(smtp, BATCH)
    spent_us = (time.process_time() - began_s) / MAILS * 1e6
    await smtp.close()
    return spent_us


async def _send(smtp: SmtpProvider, mails: int) -> None:
    left = [
        Envelope(delivery_id="d", token="t", recipients=(RECIPIENT,), data=DATA, sender=SENDER)
        for _ in range(mails)
    ]
    while left:
        prepared = await smtp.prepare_some(left)
        del left[: len(prepared)]
        await _answers(prepared)


async def _answers(prepared: list[Any]) -> None:
    waiting = len(prepared)
    all_answered = asyncio.get_running_loop().create_future()

    def told(answer: Accepted | Failure) -> None:
        nonlocal waiting
        assert isinstance(answer, Accepted), answer
        waiting -= 1
        if not waiting:
            all_answered.set_result(None)

    for sending in prepared:
        sending.start(told)
    await all_answered


def main() -> None:
    import uvloop

    runners: dict[str, Callable[[Coroutine[Any, Any, float]], float]] = {
        "asyncio": asyncio.run,
        "uvloop": uvloop.run,
    }
    with smtp_sink() as sink:
        least = min(bare_sockets(sink.port) for _ in range(RUNS))
        print(f"| per mail of 1 KB, {BATCH} at a time | CPU µs | bare sockets |")
        print("| --- | --- | --- |")
        print(f"| bare sockets | {least:.1f} | 1.0 |")
        for loop, run in runners.items():
            for name, measure in (("bare protocol", bare_protocol), ("SMTP client", client)):
                spent = min(run(measure(sink.port)) for _ in range(RUNS))
                print(f"| {name}, {loop} | {spent:.1f} | {spent / least:.1f} |", flush=True)


if __name__ == "__main__":
    main()
