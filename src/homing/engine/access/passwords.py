"""Passwords as scrypt hashes. Each hash carries its own cost, so that the cost can be raised."""

from __future__ import annotations

import hashlib
import hmac
from base64 import b64decode, b64encode

from msgspec import Struct

SALT_BYTES = 16
MIN_CHARS = 12
MAX_CHARS = 256


class Cost(Struct, frozen=True):
    """The parameters of scrypt (RFC 7914): 32 MB and about a quarter of a second by default."""

    log_n: int = 15
    r: int = 8
    p: int = 3


COST = Cost()


def hashed(password: str, salt: bytes, cost: Cost | None = None) -> str:
    """As it is stored: `scrypt$15$8$3$SALT$HASH`."""
    cost = COST if cost is None else cost
    derived = hashlib.scrypt(
        password.encode("utf-8", "surrogatepass"),
        salt=salt,
        n=1 << cost.log_n,
        r=cost.r,
        p=cost.p,
        maxmem=256 * (1 << cost.log_n) * cost.r,
        dklen=32,
    )
    parts = ("scrypt", cost.log_n, cost.r, cost.p, _text(salt), _text(derived))
    return "$".join(map(str, parts))


def matches(password: str, stored: str | None) -> bool:
    """Whether it is the password. Without a stored one the same work is done: the time of an
    answer must not reveal whether there is such a user."""
    if stored is None:
        hashed(password, bytes(SALT_BYTES))
        return False
    _, log_n, r, p, salt, _ = stored.split("$")
    again = hashed(password, b64decode(salt), Cost(int(log_n), int(r), int(p)))
    return hmac.compare_digest(again, stored)


def _text(data: bytes) -> str:
    return b64encode(data).decode()
