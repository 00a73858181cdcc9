"""API tokens: only their hash is stored; the token itself is shown once."""

from __future__ import annotations

import hashlib
from contextlib import suppress
from typing import Literal, TypeAlias, cast, get_args

from msgspec import Struct

from homing.domain.delivery import Fact
from homing.domain.errors import InvalidRequest, NotAllowed, NotFound, StoreError
from homing.ports import Clock, Random, Store

TOKEN = "token"  # noqa: S105 - the kind of the fact, not a secret
# By the hash of a token: when it was last used.
TOKEN_USE = "token_use"  # noqa: S105 - as above
PREFIX = "hmg_"
# Not every use is written: this is how exact the time of the last one is.
USE_NOTED_EVERY_S = 600.0

Role: TypeAlias = Literal["viewer", "sender", "operator", "admin"]
Right: TypeAlias = Literal["read", "send", "operate", "administer"]

# What each role may do, as data.
RIGHTS: dict[Role, frozenset[Right]] = {
    "viewer": frozenset({"read"}),
    "sender": frozenset({"send"}),
    "operator": frozenset({"read", "operate"}),
    "admin": frozenset({"read", "send", "operate", "administer"}),
}


class Token(Struct, frozen=True):
    """What is stored of a token: `digest` is its hash."""

    digest: str
    name: str
    role: Role
    created_at_ms: int


class Tokens:
    """Makes, lists, revokes and checks the tokens of one store."""

    def __init__(self, store: Store, clock: Clock, rng: Random) -> None:
        self._store = store
        self._clock = clock
        self._rng = rng

    async def make(self, name: str, role: str) -> str:
        """Make a token. It is returned only here; the store keeps its hash."""
        if role not in get_args(Role):
            raise InvalidRequest("role", f"must be one of {', '.join(get_args(Role))}")
        if not name.strip():
            raise InvalidRequest("name", "must not be empty")
        if any(token.name == name for token in await self.all()):
            raise NotAllowed(f"a token named {name!r} exists")
        secret = PREFIX + self._rng.entropy(24).hex()
        fact = Fact(TOKEN, digest_of(secret), self._clock.now_ms(), {"name": name, "role": role})
        await self._store.save([], [fact])
        return secret

    async def all(self) -> list[Token]:
        """Every valid token."""
        return [_token(fact) for fact in await self._store.facts(TOKEN)]

    async def any(self) -> bool:
        """Whether there is a token at all."""
        return bool(await self._store.facts(TOKEN, limit=1))

    async def revoke(self, name: str) -> None:
        """End a token at once."""
        for token in await self.all():
            if token.name == name:
                now_ms = self._clock.now_ms()
                kinds = (TOKEN, TOKEN_USE)
                await self._store.save([], [Fact(k, token.digest, now_ms, None) for k in kinds])
                return
        raise NotFound(f"no token named {name!r}")

    async def check(self, secret: str) -> Token | None:
        """The token with this secret, if any; looked up by hash, so timing reveals nothing."""
        digest = digest_of(secret)
        for fact in await self._store.facts(TOKEN, digest):
            if fact.key == digest:
                return _token(fact)
        return None

    async def note_use(self, token: Token) -> None:
        """Store the time of use, unless it was stored recently."""
        now_ms = self._clock.now_ms()
        noted = await self._store.facts(TOKEN_USE, token.digest, limit=1)
        if not noted or now_ms - noted[0].at_ms > USE_NOTED_EVERY_S * 1000:
            with suppress(StoreError):  # a store that is full can still be read
                await self._store.save([], [Fact(TOKEN_USE, token.digest, now_ms)])

    async def last_uses(self) -> dict[str, int]:
        """By digest, when each token was last used, in milliseconds."""
        return {fact.key: fact.at_ms for fact in await self._store.facts(TOKEN_USE)}


def digest_of(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


def _token(fact: Fact) -> Token:
    value = fact.value or {}
    return Token(fact.key, str(value.get("name")), cast(Role, value.get("role")), fact.at_ms)
