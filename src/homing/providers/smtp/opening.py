"""From a host name to a session: connect, secure, log in; a failure says which step it was."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
import ssl
from typing import Any, NamedTuple

from homing.domain.failure import Failure
from homing.domain.loopback import is_loopback
from homing.providers.smtp.classification import Heard, failure
from homing.providers.smtp.exchange import Phase
from homing.providers.smtp.features import Features
from homing.providers.smtp.handshake import Refused, Say, handshake
from homing.providers.smtp.replies import Reply, ReplyParser
from homing.providers.smtp.url import SmtpSettings
from homing.providers.smtp.wire import is_host

HAPPY_EYEBALLS_DELAY_S = 0.25
TLS_SHUTDOWN_TIMEOUT_S = 2.0


async def open_session(settings: SmtpSettings, context: ssl.SSLContext | None) -> Session | Failure:
    """A session ready for mail, or why there is none. Nothing of a message is sent here."""
    opening = _Opening(settings, context)
    phase: Phase | None = None
    detail = ""
    heard: Heard
    try:
        return await opening.run()
    except Refused as refused:
        phase, heard = refused.phase, refused.reply or "missing"
    except _OutOfTurn:
        # Bytes sent before TLS that would be read after it: an attack.
        phase, heard = ("tls", "untrusted") if opening.in_the_clear else (None, "garbled")
        detail = "the server spoke out of turn"
    except TimeoutError:
        heard = "timeout"
    except ssl.SSLError as error:
        phase, heard, detail = "tls", "untrusted", str(error)
    except _OffLoopback:
        phase, heard, detail = "tls", "untrusted", "without TLS only loopback is allowed"
    except (OSError, EOFError) as error:
        heard = "cut" if opening.transport else "unreachable"
        detail = str(error)
    finally:
        opening.hang_up()
    return failure(phase or opening.phase, heard, detail)


class Session(NamedTuple):
    """Connected, secured and logged in. The caller must set its protocol before it awaits."""

    transport: asyncio.Transport
    features: Features


class _OutOfTurn(Exception):
    """The server sent more than one reply to one command, or bytes that are not a reply."""


class _OffLoopback(Exception):
    """TLS is not used, and the name led to another machine."""


class _Ear(asyncio.Protocol):
    """Receives one reply at a time. During a handshake nothing else may arrive."""

    def __init__(self) -> None:
        self._parser = ReplyParser()
        self._replies: list[Reply] = []
        self._lost = False
        self._news = asyncio.Event()

    @property
    def quiet(self) -> bool:
        return not (self._replies or self._parser.mid_reply or self._parser.broken)

    async def reply(self) -> Reply:
        while not self._replies and self._parser.broken is None:
            if self._lost:
                raise EOFError("the server hung up")
            self._news.clear()
            await self._news.wait()
        if self._parser.broken is not None or self._parser.mid_reply or len(self._replies) > 1:
            raise _OutOfTurn
        return self._replies.pop()

    def data_received(self, data: bytes) -> None:
        self._replies += self._parser.feed(data)
        self._news.set()

    def connection_lost(self, _exc: Exception | None) -> None:
        self._lost = True
        self._news.set()


class _Opening:
    """One handshake under way."""

    def __init__(self, settings: SmtpSettings, context: ssl.SSLContext | None) -> None:
        self.phase: Phase = "connect"
        self.transport: asyncio.Transport | None = None
        self._settings = settings
        self._context = context
        self._ear = _Ear()
        self._secured = False
        self._handed_over = False

    async def run(self) -> Session:
        settings = self._settings
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(settings.connect_timeout_s) as limit:
            self.transport, _ = await loop.create_connection(
                lambda: self._ear,
                settings.host,
                settings.port,
                **_eyeballs(loop),
            )
            self._check_peer(self.transport)
            # A server may take minutes to greet (RFC 5321, 4.5.3.2.1); connecting does not.
            limit.reschedule(loop.time() + settings.command_timeout_s)
            if settings.tls == "implicit":
                self._enter("tls", limit)
                self.transport = await self._start_tls(self.transport)
            features = await self._shake_hands(self.transport, limit)
            # What comes behind the last reply would be taken for an answer to the first mail.
            if not self._ear.quiet or self.transport.is_closing():
                raise _OutOfTurn
            self._handed_over = True
            return Session(self.transport, features)

    async def _shake_hands(self, transport: asyncio.Transport, limit: asyncio.Timeout) -> Features:
        settings = self._settings
        helo = settings.helo or _own_name(transport)
        steps = handshake(helo=helo, tls=settings.tls, credentials=settings.credentials)
        answer: Reply | None = None
        while True:
            try:
                step = steps.send(answer)
            except StopIteration as end:
                features: Features = end.value
                return features
            if isinstance(step, Say):
                self._enter(step.phase, limit)
                if step.line:
                    transport.write(step.line)
                answer = await self._ear.reply()
            else:
                answer = None
                transport = self.transport = await self._start_tls(transport)

    def _enter(self, phase: Phase, limit: asyncio.Timeout) -> None:
        """Each phase has its own time, and all of its reads and writes share it."""
        if phase != self.phase:
            self.phase = phase
            timeout_s = self._settings.command_timeout_s
            limit.reschedule(asyncio.get_running_loop().time() + timeout_s)

    async def _start_tls(self, transport: asyncio.Transport) -> asyncio.Transport:
        if self._context is None or not self._ear.quiet:
            raise _OutOfTurn
        secured = await asyncio.get_running_loop().start_tls(
            transport,
            self._ear,
            self._context,
            server_hostname=self._settings.host,
            ssl_handshake_timeout=self._settings.command_timeout_s,
            ssl_shutdown_timeout=TLS_SHUTDOWN_TIMEOUT_S,
        )
        if secured is None:
            raise EOFError("the server hung up")
        self._secured = True
        return secured

    def _check_peer(self, transport: asyncio.Transport) -> None:
        """`localhost` may have been pointed elsewhere; without TLS that is not loopback."""
        peer = transport.get_extra_info("peername")
        if peer is None:
            raise EOFError("the server hung up")
        if self._settings.tls == "none" and not is_loopback(peer[0]):
            raise _OffLoopback

    @property
    def in_the_clear(self) -> bool:
        """Whether TLS is required and not started yet."""
        return self._settings.tls != "none" and not self._secured

    def hang_up(self) -> None:
        if self.transport is not None and not self._handed_over:
            self.transport.abort()


def _own_name(transport: asyncio.Transport) -> str:
    """The host's full name, else its address: never a bare word that servers refuse."""
    name = socket.gethostname()
    if "." in name and is_host(name):
        return name
    own = transport.get_extra_info("sockname")
    if own is None:
        raise EOFError("the server hung up")
    address = ipaddress.ip_address(own[0].partition("%")[0])
    return f"[{address}]" if address.version == 4 else f"[IPv6:{address}]"


def _eyeballs(loop: asyncio.AbstractEventLoop) -> dict[str, Any]:
    """Other loops (uvloop) do not try the addresses of a host in parallel as asyncio does."""
    if isinstance(loop, asyncio.BaseEventLoop):
        return {"happy_eyeballs_delay": HAPPY_EYEBALLS_DELAY_S}
    return {}
