"""SCRAM-SHA-256 (RFC 7677): the server never sees the password, and proves that it knows it."""

from __future__ import annotations

import re

from homing.providers.smtp.talk import Cancelled, Login, Talk, Untrusted

# 0.05 s of the event loop; servers ask for 4,096 to 15,000.
MAX_ITERATIONS = 100_000
_ITERATIONS = re.compile(rb"(?:^|,)i=([0-9]{1,9})(?:,|$)")


def scram_sha_256(login: Login) -> Talk:
    try:
        from scramp import ScramClient, ScramException  # noqa: PLC0415 - 0.15 s, seldom needed
    except ModuleNotFoundError:
        raise Cancelled("SCRAM needs the package scramp: install homing[mail]") from None
    try:
        client = ScramClient(["SCRAM-SHA-256"], login.user, login.secret)
        first = yield client.get_client_first().encode()
        if first is None:
            raise Untrusted("the server accepted a login without a password")
        iterations = _ITERATIONS.search(first)
        if iterations is None or int(iterations[1]) > MAX_ITERATIONS:
            raise Cancelled("the server asks for too much work")
        client.set_server_first(first.decode())
        final = yield client.get_client_final().encode()
    except (ScramException, UnicodeError) as error:
        raise Cancelled(str(error)) from None
    if final is None:
        raise Untrusted("the server did not prove that it knows the password")
    if final.startswith(b"e="):
        raise Cancelled("the server refuses the proof")
    try:
        client.set_server_final(final.decode())
    except (ScramException, UnicodeError):
        raise Untrusted("the server's proof of the password is wrong") from None
    yield b""
