"""A server that is slow, or drips one byte now and then, holds nobody longer than the deadline."""

import asyncio

import pytest

from tests.unit.smtp.sending import accepted, envelope, failed, provider
from tests.unit.smtp.wire_server import LOCK_STEP, PIPELINING, Answer, Drip, Hang, WireServer

# Every drip is well within the deadline; together they are far beyond it. Who waits for the next
# byte only gets the whole reply in the end.
EVERY_S = 0.1
DEADLINE_S = 0.3
LONG_REPLY = "250 " + "x" * 20 + "\r\n"
BOTH = pytest.mark.parametrize("features", [PIPELINING, LOCK_STEP], ids=["pipelined", "lock-step"])
SLOW = pytest.mark.parametrize(
    "answer", [Hang(), Drip(LONG_REPLY, EVERY_S)], ids=["hangs", "drips"]
)


@SLOW
@BOTH
@pytest.mark.parametrize(
    ("verb", "option", "maybe_sent"),
    [
        ("greeting", "command_timeout_s", False),
        ("ehlo", "command_timeout_s", False),
        ("mail", "command_timeout_s", False),
        ("rcpt", "command_timeout_s", False),
        ("data", "command_timeout_s", False),
        ("dot", "dot_timeout_s", True),
    ],
)
async def test_each_phase_has_a_total_deadline(
    features: tuple[str, ...], verb: str, option: str, maybe_sent: bool, answer: Answer
) -> None:
    server = WireServer(features, by_verb={verb: answer})
    async with server, provider(f"{server.url}&{option}={DEADLINE_S}") as smtp:
        outcome = await failed(smtp)
    assert (outcome.error_class, outcome.disposition) == ("timed_out", "retry")
    assert outcome.maybe_sent is maybe_sent


async def test_the_login_has_a_time_of_its_own() -> None:
    def server(answer: Answer) -> WireServer:
        return WireServer((*PIPELINING, "AUTH PLAIN"), auth=answer)

    slow = server(Drip("235 welcome, at long last\r\n", EVERY_S))
    async with slow, provider(url(slow, "connect_timeout_s=2&command_timeout_s=60")) as smtp:
        await accepted(smtp)
    silent = server(Hang())
    async with silent, provider(url(silent, "connect_timeout_s=60&command_timeout_s=0.2")) as smtp:
        outcome = await failed(smtp)
    assert (outcome.error_class, outcome.disposition) == ("timed_out", "retry")


def url(server: WireServer, options: str) -> str:
    return f"smtp://ann:secret@127.0.0.1:{server.port}?tls=none&{options}"


@BOTH
async def test_each_recipient_has_a_deadline_of_its_own(features: tuple[str, ...]) -> None:
    names = [f"r{number}@example.org" for number in range(8)]
    reply = Drip("250 ok\r\n", 0.03)
    deadline_s = 1.5
    assert len(names) * len(reply.reply) * reply.every_s > deadline_s
    server = WireServer(features, rcpt=reply)
    async with server, provider(f"{server.url}&command_timeout_s={deadline_s}") as smtp:
        await accepted(smtp, envelope(*names))


async def test_a_server_that_stops_reading_the_content() -> None:
    """The dot never left: it timed out and was provably not sent."""

    async def deaf(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"220 hi\r\n")
        for reply in (b"250 x\r\n", b"250 ok\r\n", b"250 ok\r\n", b"354 go\r\n"):
            await reader.readline()
            writer.write(reply)
        writer.transport.pause_reading()  # type: ignore[attr-defined] # a read transport, too
        await done.wait()
        writer.transport.abort()

    done = asyncio.Event()
    listener = await asyncio.start_server(deaf, "127.0.0.1", 0, limit=1024)
    port = listener.sockets[0].getsockname()[1]
    url = f"smtp://127.0.0.1:{port}?tls=none&data_timeout_s={DEADLINE_S}"
    async with provider(url) as smtp:
        outcome = await failed(smtp, envelope(data=b"x" * 50_000_000))
        done.set()
    listener.close()
    assert (outcome.error_class, outcome.maybe_sent) == ("timed_out", False)


async def test_a_slow_upload_may_take_longer_than_the_limit_while_some_of_it_leaves() -> None:
    taken = pauses = 0
    pause_s, deadline_s = 0.02, 1.0

    async def slow(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal taken, pauses
        writer.write(b"220 hi\r\n")
        for reply in (b"250 x\r\n", b"250 ok\r\n", b"250 ok\r\n", b"354 go\r\n"):
            await reader.readline()
            writer.write(reply)
        tail = b""
        while not tail.endswith(b"\r\n.\r\n"):
            data = await reader.read(256 * 1024)
            taken += len(data)
            tail = (tail + data)[-5:]
            await asyncio.sleep(pause_s)
            pauses += 1
        writer.write(b"250 queued\r\n")
        await reader.readline()
        writer.transport.abort()

    content = b"x" * 70 + b"\r\n"
    data = content * 400_000
    listener = await asyncio.start_server(slow, "127.0.0.1", 0, limit=128 * 1024)
    port = listener.sockets[0].getsockname()[1]
    async with provider(f"smtp://127.0.0.1:{port}?tls=none&data_timeout_s={deadline_s}") as smtp:
        await accepted(smtp, envelope(data=data))
    listener.close()
    assert taken == len(data) + 3
    assert pauses * pause_s > 2 * deadline_s  # else it would show nothing


async def test_a_host_that_does_not_answer_at_all() -> None:
    # A listener whose queue is full drops further connections: TCP itself gets no answer.
    import socket

    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        port = listener.getsockname()[1]
        filling = [socket.socket() for _ in range(4)]
        try:
            for each in filling:
                each.setblocking(False)
                each.connect_ex(("127.0.0.1", port))
            url = f"smtp://127.0.0.1:{port}?tls=none&connect_timeout_s={DEADLINE_S}"
            async with provider(url) as smtp:
                outcome = await failed(smtp)
        finally:
            for each in filling:
                each.close()
    assert outcome.error_class == "timed_out"
