"""`SmtpProvider`: the `Provider` port over a pool of SMTP connections."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from typing import Self

from homing.domain.failure import Failure
from homing.domain.loopback import is_loopback
from homing.ports import Envelope, Finding
from homing.providers.smtp.letter import Letter, compose
from homing.providers.smtp.opening import Opener
from homing.providers.smtp.pool import Pool
from homing.providers.smtp.sending import Sending
from homing.providers.smtp.tls import tls_context
from homing.providers.smtp.token import TokenSource
from homing.providers.smtp.url import SmtpSettings, parse_url
from homing.providers.smtp.wire import address_problem
from homing.runtime import forks

# Making the lines of a larger one takes milliseconds: it is done beside the event loop.
LARGE_MESSAGE = 256 * 1024


class SmtpProvider:
    """Mail by SMTP. Servers recognise no repeated token, and a lost answer cannot be looked up.

    `warnings` are for the operator: settings that work and are weaker than they should be.
    `sender` is used where an envelope names none.
    """

    token_window_s = 0.0

    def __init__(self, settings: SmtpSettings) -> None:
        self.settings = settings
        self.warnings = settings.warnings
        self.sender = settings.sender or _own_address(settings)
        self._context = tls_context(settings)
        self._pool = self._new_pool()
        forks.forget_in_child(self)

    @classmethod
    def from_url(cls, url: str, *, token: TokenSource | None = None) -> Self:
        """Raises SettingsError that names the option at fault and shows no secret.

        `token` is called for an access token at every login, as the user that the URL names.
        """
        return cls(parse_url(url, token=token))

    @property
    def description(self) -> str:
        return f"SMTP at {self.settings.host}:{self.settings.port}"

    @property
    def stays_local(self) -> bool:
        return is_loopback(self.settings.host)

    async def prepare(self, envelope: Envelope) -> Sending | Failure:
        """Check it, make its bytes, and have a session that is secured and logged in.

        It waits while as many are prepared as can soon be sent, so commit (or abandon) each one
        as soon as it is marked: never wait for a fixed number of them first.
        """
        [prepared] = await self.prepare_some([envelope])
        return prepared

    async def prepare_some(self, envelopes: Sequence[Envelope]) -> list[Sending | Failure]:
        """As `prepare`, for as many of the first ones as there are places for."""
        letters = [
            await asyncio.to_thread(compose, envelope, self.sender)
            if len(envelope.data) > LARGE_MESSAGE
            else compose(envelope, self.sender)
            for envelope in envelopes
        ]
        wanted = sum(isinstance(letter, Letter) for letter in letters)
        if not wanted:
            return [letter for letter in letters if isinstance(letter, Failure)]
        reserved = await self._pool.reserve(wanted)
        if isinstance(reserved, Failure):
            return [letter if isinstance(letter, Failure) else reserved for letter in letters]
        places = reserved
        prepared: list[Sending | Failure] = []
        for letter in letters:
            if isinstance(letter, Failure):
                prepared.append(letter)
                continue
            features = self._pool.fitting(letter)
            if isinstance(features, Failure):
                prepared.append(features)
            elif places:
                places -= 1
                prepared.append(Sending(self._pool, letter, features))
            else:
                break
        self._pool.release(places)
        return prepared

    async def check(self) -> Failure | None:
        """Whether the server can be reached, trusted and logged in to; sends nothing."""
        reserved = await self._pool.reserve()
        if isinstance(reserved, Failure):
            return reserved
        self._pool.release()
        return None

    async def findings(self) -> list[Finding]:
        """For `doctor`: what is weaker than it should be, and whether the server is there."""
        found = [Finding("provider", "warning", str(warning)) for warning in self.warnings]
        failure = await self.check()
        if failure is not None:
            said = " ".join(part for part in (failure.code, failure.detail) if part)
            return [*found, Finding("provider", "bad", f"{failure.error_class}: {said}")]
        return [*found, Finding("provider", "good", ", ".join(_as_found(self.settings)))]

    async def open(self) -> None:
        """Make it usable again after `close`."""
        if self._pool.is_closed:
            self._pool = self._new_pool()

    async def close(self) -> None:
        await self._pool.close()

    def _forget_parent(self) -> None:
        """In a forked child: the parent's connections are left alone."""
        forks.leave_to_parent(self._pool)
        self._pool = self._new_pool()

    def _new_pool(self) -> Pool:
        return Pool(self.settings, Opener(self.settings, self._context))


def _as_found(settings: SmtpSettings) -> Iterator[str]:
    """What a good answer to a check proves with these settings."""
    yield "reachable"
    if settings.tls == "none":
        yield "not encrypted"
    else:
        yield "trusted" if settings.verify else "encrypted, certificate not checked"
    if settings.credentials is not None:
        yield "credentials accepted"


def _own_address(settings: SmtpSettings) -> str | None:
    """Submission servers mostly let a user send as himself."""
    if settings.credentials is None or address_problem(settings.credentials.user):
        return None
    return settings.credentials.user
