"""API tokens: only their hash is stored; the token itself is shown once."""

from __future__ import annotations

import hashlib
from typing import Literal, TypeAlias, cast, get_args

from msgspec import Struct

from homing.domain.delivery import Fact
from homing.domain.errors import InvalidRequest, NotAllowed, NotFound
from homing.ports import Clock, Dice, Store

TOKEN = "token"  # noqa: S105 - the kind of the fact, not a secret
PREFIX = "hmg_"

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

    def __init__(self, store: Store, clock: Clock, dice: Dice) -> None:
        self._store = store
        self._clock = clock
        self._dice = dice

    async def make(self, name: str, role: str) -> str:
        """Make a token. It is returned only here; the store keeps its hash."""
        if role not in get_args(Role):
            raise InvalidRequest("role", f"must be one of {', '.join(get_args(Role))}")
        if not name.strip():
            raise InvalidRequest("name", "must not be empty")
        if any(token.name == name for token in await self.all()):
            raise NotAllowed(f"a token named {name!r} exists")
        secret = PREFIX + self._dice.entropy(24).hex()
        fact = Fact(TOKEN, digest_of(secret), self._clock.now_ms(), {"name": name, "role": role})
        await self._store.save([], [fact])
        return secret

    async def all(self) -> list[Token]:
        """Every token that is in force."""
        return [_token(fact) for fact in await self._store.facts(TOKEN)]

    async def any(self) -> bool:
        """Whether there is a token at all."""
        return bool(await self._store.facts(TOKEN, limit=1))

    async def revoke(self, name: str) -> None:
        """End a token at once."""
        for token in await self.all():
            if token.name == name:
                await self._store.save([], [Fact(TOKEN, token.digest, self._clock.now_ms(), None)])
                return
        raise NotFound(f"no token named {name!r}")

    async def check(self, secret: str) -> Token | None:
        """The token that this secret is, if any; looked up by hash, so timing tells nothing."""
        digest = digest_of(secret)
        for fact in await self._store.facts(TOKEN, digest):
            if fact.key == digest:
                return _token(fact)
        return None


def digest_of(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


def _token(fact: Fact) -> Token:
    value = fact.value or {}
    return Token(fact.key, str(value.get("name")), cast(Role, value.get("role")), fact.at_ms)
