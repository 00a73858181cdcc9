"""An SMTP server for tests that sees single bytes: it says what it is told and forgets nothing."""

import asyncio
import contextlib
import re
import ssl
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Self, TypeAlias

PIPELINING = ("PIPELINING", "8BITMIME", "ENHANCEDSTATUSCODES")
LOCK_STEP = ("8BITMIME", "ENHANCEDSTATUSCODES")
STRICT_END = rb"\r\n\.\r\n"


@dataclass(frozen=True)
class Cut:
    """Say this, then reset the connection."""

    after: str = ""


@dataclass(frozen=True)
class Hang:
    """Say nothing more on this connection and keep it open."""


@dataclass(frozen=True)
class Drip:
    """One byte at a time, for ever late."""

    reply: str
    every_s: float


Answer: TypeAlias = str | Cut | Hang | Drip
Answers: TypeAlias = Answer | Sequence[Answer] | Callable[[str], Answer]

_USUAL: dict[str, Answers] = {
    "greeting": "220 wire.test ESMTP",
    "starttls": "220 2.0.0 go ahead",
    "auth": "235 2.7.0 welcome",
    "mail": "250 2.1.0 sender ok",
    "rcpt": "250 2.1.5 recipient ok",
    "data": "354 go ahead",
    "dot": "250 2.0.0 Ok: queued as ABC123",
    "rset": "250 2.0.0 reset",
    "noop": "250 2.0.0 ok",
    "quit": "221 2.0.0 bye",
}


@dataclass
class Client:
    """What one connection said."""

    raw: bytearray = field(default_factory=bytearray)
    reads: list[bytes] = field(default_factory=list)
    commands: list[str] = field(default_factory=list)
    messages: list[bytes] = field(default_factory=list)
    secure: bool = False


class _Closed(Exception):
    pass


class WireServer:
    """Use as `async with`. Answers are by verb in small letters, and `greeting` and `dot`.

    A sequence gives one answer after the other, over all connections; its last one stays.
    `by_verb` is the same, for a verb that is a value. `to_client` comes first: it sees the verb and
    the client, whose last command is the one to answer; None leaves it to the others. `hello_to`
    names the features that a client is offered.
    """

    def __init__(
        self,
        features: Sequence[str] = PIPELINING,
        *,
        tls: ssl.SSLContext | None = None,
        implicit: bool = False,
        end_of_data: bytes = STRICT_END,
        by_verb: Mapping[str, Answers] | None = None,
        to_client: Callable[[str, Client], Answer | None] | None = None,
        hello_to: Callable[[Client], Sequence[str]] | None = None,
        **answers: Answers,
    ) -> None:
        self.clients: list[Client] = []
        self.url = ""
        self.port = 0
        self._hello_to = hello_to or (lambda _: features)
        self._to_client = to_client or (lambda _verb, _client: None)
        self._tls = tls
        self._implicit = implicit
        self._end_of_data = re.compile(end_of_data)
        self._answers = _USUAL | dict(by_verb or {}) | answers
        self._asked: dict[str, int] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._news = asyncio.Condition()

    @property
    def commands(self) -> list[str]:
        return [command for client in self.clients for command in client.commands]

    @property
    def messages(self) -> list[bytes]:
        return [message for client in self.clients for message in client.messages]

    @property
    def raw(self) -> bytes:
        return b"".join(bytes(client.raw) for client in self.clients)

    async def heard(self, command: str) -> None:
        """Wait until a client has said this."""
        async with asyncio.timeout(10), self._news:
            await self._news.wait_for(lambda: command in self.commands)

    async def got(self, messages: int) -> None:
        """Wait until so many messages have arrived."""
        async with asyncio.timeout(10), self._news:
            await self._news.wait_for(lambda: len(self.messages) >= messages)

    async def note(self, said: list[str] | list[bytes], what: str | bytes) -> None:
        async with self._news:
            said.append(what)  # type: ignore[arg-type] # a line to lines, a message to messages
            self._news.notify_all()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(
            self._serve, "127.0.0.1", 0, ssl=self._tls if self._implicit else None
        )
        self.port = self._server.sockets[0].getsockname()[1]
        self.url = f"smtp://127.0.0.1:{self.port}?tls=none"
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        await self.hang_up()

    async def hang_up(self) -> None:
        """Cut every connection."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        client = Client(secure=self._implicit)
        self.clients.append(client)
        with contextlib.suppress(_Closed, ConnectionError, ssl.SSLError, asyncio.CancelledError):
            await _Conversation(self, client, reader, writer).run()
        writer.transport.abort()

    def answer(self, verb: str, line: str, client: Client) -> Answer:
        if (special := self._to_client(verb, client)) is not None:
            return special
        asked = self._asked[verb] = self._asked.get(verb, 0) + 1
        answers = self._answers.get(verb, "502 5.5.1 what?")
        if callable(answers):
            return answers(line)
        if isinstance(answers, Sequence) and not isinstance(answers, str):
            return answers[min(asked, len(answers)) - 1]
        return answers

    def hello(self, client: Client) -> str:
        offered = self._hello_to(client)
        features = [*offered, *(["STARTTLS"] if self._tls and not self._implicit else [])]
        return "\r\n".join(
            ("250-" if position < len(features) else "250 ") + line
            for position, line in enumerate(["wire.test", *features])
        )

    @property
    def has_hello(self) -> bool:
        return "ehlo" not in self._answers

    @property
    def end_of_data(self) -> re.Pattern[bytes]:
        return self._end_of_data

    @property
    def tls(self) -> ssl.SSLContext | None:
        return self._tls


class _Conversation:
    def __init__(
        self,
        server: WireServer,
        client: Client,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        self._server = server
        self._client = client
        self._reader = reader
        self._writer = writer
        self._held = b""

    async def run(self) -> None:
        await self._say("greeting", "")
        while True:
            line = await self._line()
            await self._server.note(self._client.commands, line)
            verb = line.split(" ", 1)[0].rstrip(":").lower()
            if verb in ("ehlo", "helo") and self._server.has_hello:
                hello = self._server.hello(self._client)
                await self._write(hello if verb == "ehlo" else "250 wire.test")
                continue
            said = await self._say(verb, line)
            if said.startswith("354"):
                await self._content()
                await self._say("dot", "")
            while said.startswith("334"):
                await self._server.note(self._client.commands, await self._line())
                said = await self._say("auth", "")
            if verb == "starttls" and said.startswith("220") and self._server.tls:
                self._held = b""
                await self._writer.start_tls(self._server.tls)
                self._client.secure = True
            if verb == "quit":
                raise _Closed

    async def _line(self) -> str:
        while b"\n" not in self._held:
            await self._read()
        line, _, self._held = self._held.partition(b"\n")
        return line.rstrip(b"\r").decode("utf-8", "surrogateescape")

    async def _content(self) -> None:
        # The CRLF that ends "DATA" counts as the one before a first line that is a dot.
        held = b"\r\n"
        while (end := self._server.end_of_data.search(held + self._held)) is None:
            await self._read()
        whole = held + self._held
        await self._server.note(self._client.messages, whole[2 : end.start()] + b"\r\n")
        self._held = whole[end.end() :]

    async def _read(self) -> None:
        data = await self._reader.read(65536)
        if not data:
            raise _Closed
        self._client.raw += data
        self._client.reads.append(data)
        self._held += data

    async def _say(self, verb: str, line: str) -> str:
        answer = self._server.answer(verb, line, self._client)
        if isinstance(answer, str):
            await self._write(answer)
            return answer
        if isinstance(answer, Hang):
            while True:
                await self._read()
        if isinstance(answer, Drip):
            for byte in answer.reply.encode():
                self._writer.write(bytes([byte]))
                await asyncio.sleep(answer.every_s)
            return answer.reply
        if answer.after:
            await self._write(answer.after)
        raise _Closed

    async def _write(self, reply: str) -> None:
        self._writer.write(reply.encode("utf-8", "surrogateescape") + b"\r\n")
        await self._writer.drain()
