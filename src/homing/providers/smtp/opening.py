"""From a host name to a session: connect, secure, log in; a failure says which step it was."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
import ssl
from collections.abc import Generator
from typing import Any, NamedTuple, TypeVar

from homing.domain.failure import Failure
from homing.domain.loopback import is_loopback
from homing.providers.smtp.classification import Heard, failure
from homing.providers.smtp.exchange import Phase
from homing.providers.smtp.features import Features
from homing.providers.smtp.handshake import handshake
from homing.providers.smtp.logins import Logins
from homing.providers.smtp.replies import Reply, ReplyParser
from homing.providers.smtp.steps import Refused, Say, StartTls
from homing.providers.smtp.token import NoToken
from homing.providers.smtp.url import SmtpSettings
from homing.providers.smtp.wire import is_host

T = TypeVar("T")

HAPPY_EYEBALLS_DELAY_S = 0.25
TLS_SHUTDOWN_TIMEOUT_S = 2.0


class Opener:
    """Opens sessions. It makes one login at a time, so that a wrong password is tried once."""

    def __init__(self, settings: SmtpSettings, context: ssl.SSLContext | None) -> None:
        self._settings = settings
        self._context = context
        known = settings.credentials
        self._logins = None if known is None else Logins(settings, known)

    async def __call__(self) -> Session | Failure:
        """A session ready for mail, or why there is none. Nothing of a message is sent here."""
        if self._logins is not None and (refusal := self._logins.recent_refusal) is not None:
            return failure("auth", refusal)
        opening = _Opening(self._settings, self._context, self._logins)
        phase: Phase | None = None
        detail = ""
        heard: Heard
        try:
            return await opening.run()
        except Refused as refused:
            phase, heard, detail = refused.phase, refused.heard, refused.detail
        except NoToken as problem:
            phase, heard, detail = "auth", problem.heard, problem.detail
        except _OutOfTurn:
            # Bytes sent before TLS that would be read after it: an attack.
            phase, heard = ("tls", "untrusted") if opening.in_the_clear else (None, "garbled")
            detail = "the server spoke out of turn"
        except TimeoutError:
            heard = "timeout"
        except ssl.SSLError as error:
            phase, heard, detail = "tls", "untrusted", str(error)
        except _NotAllowedInTheClear as problem:
            phase, heard, detail = "tls", "untrusted", str(problem)
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


class _NotAllowedInTheClear(Exception):
    """TLS is not used, and the name led to a machine that needs it."""


class _Ear(asyncio.Protocol):
    """Receives one reply at a time. During a handshake nothing else may arrive."""

    def __init__(self) -> None:
        self._parser = ReplyParser()
        self._replies: list[Reply] = []
        self._lost: Exception | None = None
        self._news = asyncio.Event()

    @property
    def quiet(self) -> bool:
        return not (self._replies or self._parser.mid_reply or self._parser.broken)

    async def reply(self) -> Reply:
        while not self._replies and self._parser.broken is None:
            if self._lost is not None:
                raise self._lost
            self._news.clear()
            await self._news.wait()
        if self._parser.broken is not None or self._parser.mid_reply or len(self._replies) > 1:
            raise _OutOfTurn
        return self._replies.pop()

    def data_received(self, data: bytes) -> None:
        self._replies += self._parser.feed(data)
        self._news.set()

    def connection_lost(self, exc: Exception | None) -> None:
        # With TLS 1.3 a server refuses a client certificate after the handshake, by an alert.
        alerted = isinstance(exc, ssl.SSLError) and "ALERT" in (exc.reason or "")
        self._lost = exc if exc is not None and alerted else EOFError("the server hung up")
        self._news.set()


class _Opening:
    """One handshake under way."""

    def __init__(
        self, settings: SmtpSettings, context: ssl.SSLContext | None, logins: Logins | None
    ) -> None:
        self.phase: Phase = "connect"
        self.transport: asyncio.Transport | None = None
        self._settings = settings
        self._context = context
        self._logins = logins
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
                await self._start_tls(self.transport)
            helo = settings.helo or _own_name(self.transport)
            features = await self._carry_out(handshake(helo=helo, tls=settings.tls), limit)
            if self._logins is not None:
                async with self._logins.one_at_a_time:
                    self._enter("auth", limit)
                    await self._carry_out(await self._logins.steps(features.auth), limit)
            # What comes behind the last reply would be taken for an answer to the first mail.
            if not self._ear.quiet or self.transport.is_closing():
                raise _OutOfTurn
            self._handed_over = True
            return Session(self.transport, features)

    async def _carry_out(
        self, steps: Generator[Say | StartTls, Reply, T], limit: asyncio.Timeout
    ) -> T:
        try:
            step = next(steps)
            while self.transport is not None:
                if isinstance(step, StartTls):
                    await self._start_tls(self.transport)
                    step = next(steps)
                    continue
                self._enter(step.phase, limit)
                if step.line:
                    self.transport.write(step.line)
                try:
                    reply = await self._ear.reply()
                except EOFError as lost:
                    step = steps.throw(lost)  # it knows whether a reply has said why
                else:
                    step = steps.send(reply)
        except StopIteration as end:
            result: T = end.value
            return result
        raise EOFError("not connected")

    def _enter(self, phase: Phase, limit: asyncio.Timeout) -> None:
        """Each phase has its own time, and all of its reads and writes share it."""
        if phase != self.phase:
            self.phase = phase
            timeout_s = self._settings.command_timeout_s
            limit.reschedule(asyncio.get_running_loop().time() + timeout_s)

    async def _start_tls(self, transport: asyncio.Transport) -> None:
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
        self.transport = secured
        self._secured = True

    def _check_peer(self, transport: asyncio.Transport) -> None:
        """A name may have been pointed elsewhere: without TLS only a near machine will do."""
        peer = transport.get_extra_info("peername")
        if peer is None:
            raise EOFError("the server hung up")
        if self._settings.tls != "none" or is_loopback(peer[0]):
            return
        if self._settings.plaintext_host is None:
            raise _NotAllowedInTheClear("without TLS only loopback is allowed")
        if not _is_private(peer[0]):
            raise _NotAllowedInTheClear("without TLS only a private address is allowed")

    @property
    def in_the_clear(self) -> bool:
        """Whether TLS is required and not started yet."""
        return self._settings.tls != "none" and not self._secured

    def hang_up(self) -> None:
        if self.transport is not None and not self._handed_over:
            self.transport.abort()


def _is_private(address: str) -> bool:
    return ipaddress.ip_address(address.partition("%")[0]).is_private


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
