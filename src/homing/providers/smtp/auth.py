"""The ways to log in (SASL over SMTP, RFC 4954), without I/O."""

from __future__ import annotations

import base64
import binascii
import contextlib
import hmac
from collections.abc import Callable, Generator
from typing import Literal, TypeAlias

from msgspec import Struct

from homing.domain.known_secrets import mask_login_response
from homing.providers.smtp.replies import Reply
from homing.providers.smtp.scram import scram_sha_256
from homing.providers.smtp.steps import Refused, Say
from homing.providers.smtp.talk import Cancelled, Login, Talk, Untrusted

Secret: TypeAlias = Literal["password", "token", "certificate"]

ACCEPTED, CHALLENGE, BAD_CREDENTIALS = 235, 334, 535
# RFC 4954: the first response is part of the command only if the line stays within RFC 5321.
MAX_COMMAND_BYTES = 512


class Mechanism(Struct, frozen=True):
    """`discloses`: the server gets the secret itself, so what it says of it is final."""

    name: str
    takes: Secret
    talk: Callable[[Login], Talk]
    discloses: bool = True


def log_in(
    order: list[Mechanism], offered: frozenset[str], login: Login
) -> Generator[Say, Reply, None]:
    """Try what the server offers, in order, until one is accepted.

    A mechanism that is refused moves to the end of `order`: the next connection begins with the
    one that works.
    """
    refused: Reply | None = None
    unsaid = ""
    for mechanism in [each for each in order if each.name in offered]:
        try:
            reply = yield from _converse(mechanism, login)
        except Cancelled as problem:
            unsaid = str(problem)  # it has no way to begin, for this user or this password
            continue
        except EOFError:
            if refused is None:
                raise
            raise Refused("auth", refused) from None  # it hung up after it had said why
        except Untrusted as problem:
            raise Refused("auth", "untrusted", str(problem)) from None
        if reply.code == ACCEPTED:
            return
        order.remove(mechanism)
        order.append(mechanism)
        if refused is None or refused.code != BAD_CREDENTIALS:
            refused = reply
        if reply.kind != 5 or (reply.code == BAD_CREDENTIALS and mechanism.discloses):
            raise Refused("auth", reply)
    if refused is None:
        names = ", ".join(mechanism.name for mechanism in order)
        raise Refused("auth", "missing", unsaid or f"the server offers no login by {names}")
    raise Refused("auth", refused)


def _converse(mechanism: Mechanism, login: Login) -> Generator[Say, Reply, Reply]:
    talk = mechanism.talk(login)
    response = next(talk)
    command = f"AUTH {mechanism.name}"
    if response is not None:
        whole = f"{command} {_encoded(response) or '='}"
        if len(whole) + len("\r\n") <= MAX_COMMAND_BYTES:
            command, response = whole, None
    reply = yield Say("auth", f"{command}\r\n".encode())
    while reply.code == CHALLENGE:
        if response is None:
            try:
                response = talk.send(_challenge(reply))
            except (Cancelled, StopIteration):
                reply = yield Say("auth", b"*\r\n")
                if reply.code == ACCEPTED:
                    raise Untrusted("the server accepts a login that was cancelled") from None
                return reply
        reply = yield Say("auth", f"{_encoded(response or b'')}\r\n".encode())
        response = None
    if reply.code == ACCEPTED:
        with contextlib.suppress(StopIteration, Cancelled):
            talk.send(None)
    return reply


def _encoded(response: bytes) -> str:
    """As it is sent. Some servers quote in a refusal what they could not decode."""
    encoded = base64.b64encode(response).decode()
    mask_login_response(encoded)
    return encoded


def _challenge(reply: Reply) -> bytes:
    """Nothing where it cannot be read: some servers ask for user and password in plain words."""
    try:
        return base64.b64decode(reply.text.strip(), validate=True)
    except (binascii.Error, ValueError):
        return b""


def _plain(login: Login) -> Talk:
    response = f"\0{login.user}\0{login.secret}".encode()
    yield response
    yield response  # some servers ask, although it was in the command


def _login(login: Login) -> Talk:
    yield None
    yield login.user.encode()
    yield login.secret.encode()


def _cram_md5(login: Login) -> Talk:
    challenge = yield None
    if not challenge:
        raise Cancelled("the challenge is empty")
    digest = hmac.new(login.secret.encode(), challenge, "md5").hexdigest()
    yield f"{login.user} {digest}".encode()


def _oauthbearer(login: Login) -> Talk:
    """RFC 7628. A refusal comes as a challenge, and has to be acknowledged."""
    user = login.user.replace("=", "=3D").replace(",", "=2C")
    place = f"\1host={login.host}\1port={login.port}"
    yield f"n,a={user},{place}\1auth=Bearer {login.secret}\1\1".encode()
    yield b"\1"


def _xoauth2(login: Login) -> Talk:
    yield f"user={login.user}\1auth=Bearer {login.secret}\1\1".encode()
    yield b""


def _external(login: Login) -> Talk:
    """RFC 4422: the client certificate says who it is; the user, if any, says as whom."""
    yield login.user.encode()
    yield login.user.encode()


# In the order of preference. CRAM-MD5 is late: behind TLS it protects nothing, and servers that
# keep no plain passwords offer it and refuse the right ones.
MECHANISMS: tuple[Mechanism, ...] = (
    Mechanism("SCRAM-SHA-256", "password", scram_sha_256, discloses=False),
    Mechanism("PLAIN", "password", _plain),
    Mechanism("LOGIN", "password", _login),
    Mechanism("CRAM-MD5", "password", _cram_md5, discloses=False),
    Mechanism("OAUTHBEARER", "token", _oauthbearer),
    Mechanism("XOAUTH2", "token", _xoauth2),
    Mechanism("EXTERNAL", "certificate", _external),
)


def mechanisms_for(takes: Secret, name: str | None) -> list[Mechanism]:
    """All that take this kind of secret, or the one that is named."""
    return [each for each in MECHANISMS if each.takes == takes and name in (None, each.name)]
