"""People who may sign in, or whom a proxy authenticates, and their roles. Facts of the store."""

from __future__ import annotations

import asyncio
from typing import Literal, TypeAlias, cast, get_args

from msgspec import Struct
from msgspec.structs import replace

from homing.domain.delivery import Fact, FactValue
from homing.domain.errors import InvalidRequest, NotAllowed, NotFound
from homing.engine.access import passwords
from homing.ports import Clock, Random, Store

USER = "user"
MAX_NAME_CHARS = 200

PersonRole: TypeAlias = Literal["viewer", "operator", "admin"]


class User(Struct, frozen=True, kw_only=True):
    """`password` is a scrypt hash; None for a person whom only a proxy authenticates.

    Sessions are bound to the `stamp`: a new one ends them all.
    """

    name: str
    role: PersonRole
    created_at_ms: int
    password: str | None
    stamp: str


class Users:
    """Adds, lists, removes and checks the people of one store."""

    def __init__(self, store: Store, clock: Clock, rng: Random) -> None:
        self.store = store
        self.clock = clock
        self.rng = rng

    async def add(self, name: str, role: str, password: str | None) -> User:
        if role not in get_args(PersonRole):
            raise InvalidRequest("role", f"must be one of {', '.join(get_args(PersonRole))}")
        if not 0 < len(name) <= MAX_NAME_CHARS or not name.isprintable() or name.strip() != name:
            raise InvalidRequest(
                "name", f"must have 1 to {MAX_NAME_CHARS} printable characters, no blank at an end"
            )
        if await self.get(name) is not None:
            raise NotAllowed(f"a user named {name!r} exists")
        user = User(
            name=name,
            role=cast(PersonRole, role),
            created_at_ms=self.clock.now_ms(),
            password=await self._hashed(password),
            stamp=self._new_stamp(),
        )
        await self._put(user)
        return user

    async def set_password(self, name: str, password: str) -> None:
        """A new password ends all sessions of its user."""
        user = await self._demand(name)
        await self._put(
            replace(user, password=await self._hashed(password), stamp=self._new_stamp())
        )

    async def sign_out(self, name: str) -> None:
        """End all sessions of this user, on every device."""
        await self._put(replace(await self._demand(name), stamp=self._new_stamp()))

    async def remove(self, name: str) -> None:
        """Sessions end with their user."""
        user = await self._demand(name)
        await self.store.save([], [Fact(USER, user.name, self.clock.now_ms(), None)])

    async def all(self) -> list[User]:
        return [_user(fact) for fact in await self.store.facts(USER)]

    async def any(self) -> bool:
        return bool(await self.store.facts(USER, limit=1))

    async def get(self, name: str) -> User | None:
        # The shortest key with this prefix comes first: that of the name itself.
        found = await self.store.facts(USER, name, limit=1)
        return _user(found[0]) if found and found[0].key == name else None

    async def check(self, name: str, password: str) -> User | None:
        """The user, if this is the password. An unknown name takes as long."""
        user = await self.get(name)
        stored = None if user is None else user.password
        # scrypt takes a quarter of a second, and releases the interpreter lock meanwhile.
        return user if await asyncio.to_thread(passwords.matches, password, stored) else None

    async def _demand(self, name: str) -> User:
        user = await self.get(name)
        if user is None:
            raise NotFound(f"no user named {name!r}")
        return user

    async def _put(self, user: User) -> None:
        value: FactValue = {"role": user.role, "password": user.password, "stamp": user.stamp}
        await self.store.save([], [Fact(USER, user.name, user.created_at_ms, value)])

    async def _hashed(self, password: str | None) -> str | None:
        if password is None:
            return None
        if not passwords.MIN_CHARS <= len(password) <= passwords.MAX_CHARS:
            raise InvalidRequest(
                "password", f"must have {passwords.MIN_CHARS} to {passwords.MAX_CHARS} characters"
            )
        salt = self.rng.entropy(passwords.SALT_BYTES)
        return await asyncio.to_thread(passwords.hashed, password, salt)

    def _new_stamp(self) -> str:
        return self.rng.entropy(12).hex()


def _user(fact: Fact) -> User:
    value = fact.value or {}
    password = value.get("password")
    return User(
        name=fact.key,
        role=cast(PersonRole, value.get("role")),
        created_at_ms=fact.at_ms,
        password=None if password is None else str(password),
        stamp=str(value.get("stamp")),
    )
