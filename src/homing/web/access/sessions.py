"""Sessions of people who have signed in. The store keeps a hash of each secret, so that sessions
survive a restart and are valid in all processes of a store."""

from __future__ import annotations

from contextlib import suppress

from homing.domain.delivery import Fact, FactValue
from homing.domain.errors import StoreError
from homing.engine.access.tokens import digest_of
from homing.engine.access.users import User, Users

SESSION = "session"
SECRET_BYTES = 32
# The time of last use is written at most this often, in parts of the idle time.
NOTED_PER_IDLE = 10


class Sessions:
    """A session ends `idle_s` after its last use, `max_s` after its start, and with its user."""

    def __init__(self, users: Users, *, idle_s: float, max_s: float) -> None:
        self._users = users
        self._store = users.store
        self._clock = users.clock
        self._rng = users.rng
        self._idle_ms = round(idle_s * 1000)
        self._max_ms = round(max_s * 1000)

    async def begin(self, user: User) -> str:
        """A new session. Its secret is returned only here."""
        secret = self._rng.entropy(SECRET_BYTES).hex()
        now_ms = self._clock.now_ms()
        value: FactValue = {"user": user.name, "stamp": user.stamp, "began_at_ms": now_ms}
        await self._store.save([], [Fact(SESSION, digest_of(secret), now_ms, value)])
        return secret

    async def find(self, secret: str, *, is_use: bool = True) -> User | None:
        """The user whose session it is, if it has not ended. Each use extends it."""
        digest = digest_of(secret)
        found = await self._store.facts(SESSION, digest, limit=1)
        if not found or found[0].key != digest or found[0].value is None:
            return None
        fact, value = found[0], found[0].value
        now_ms = self._clock.now_ms()
        idle_ms = now_ms - fact.at_ms
        if idle_ms > self._idle_ms or now_ms - int(value["began_at_ms"] or 0) > self._max_ms:
            return None  # retention removes it
        user = await self._users.get(str(value["user"]))
        if user is None or user.stamp != value["stamp"]:
            return None
        if is_use and idle_ms * NOTED_PER_IDLE > self._idle_ms:
            with suppress(StoreError):  # a store that is full can still be read
                await self._store.save([], [Fact(SESSION, digest, now_ms, value)])
        return user

    async def end(self, secret: str) -> None:
        digest = digest_of(secret)
        await self._store.save([], [Fact(SESSION, digest, self._clock.now_ms(), None)])
