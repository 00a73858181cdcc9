"""`SmtpProvider`: the `Provider` port over a pool of SMTP connections."""

from __future__ import annotations

import asyncio
from typing import Self

from msgspec.structs import replace

from homing.domain.failure import Failure
from homing.ports import Accepted, Envelope
from homing.providers.smtp.letter import Letter, compose, fit
from homing.providers.smtp.opening import open_session
from homing.providers.smtp.pool import Pool
from homing.providers.smtp.tls import tls_context
from homing.providers.smtp.url import SmtpSettings, parse_url
from homing.providers.smtp.wire import address_problem


class SmtpProvider:
    """Mail by SMTP. It folds no tokens, and after an answer was lost nobody can look it up.

    `warnings` are for whoever runs it: settings that work and are weaker than they should be.
    `sender` is used where an envelope names none.
    """

    token_window_s = 0.0

    def __init__(self, settings: SmtpSettings) -> None:
        self.settings = settings
        self.warnings = settings.warnings
        self.sender = settings.sender or _own_address(settings)
        context = tls_context(settings)
        self._pool = Pool(settings, lambda: open_session(settings, context))

    @classmethod
    def from_url(cls, url: str) -> Self:
        """Raises SettingsError that names the option at fault and shows no secret."""
        return cls(parse_url(url))

    async def prepare(self, envelope: Envelope) -> Sending | Failure:
        """Check it, make its bytes, and have a session that is secured and logged in.

        It waits while as many are prepared as can soon be sent, so commit (or abandon) each one
        as soon as it is marked: never wait for a fixed number of them first.
        """
        letter = compose(envelope, self.sender)
        if isinstance(letter, Failure):
            return letter
        features = await self._pool.reserve()
        if isinstance(features, Failure):
            return features
        letter = fit(letter, features)
        if isinstance(letter, Failure):
            self._pool.release()
            return letter
        return Sending(self._pool, letter)

    async def check(self) -> Failure | None:
        """Whether the server can be reached, trusted and logged in to; sends nothing."""
        features = await self._pool.reserve()
        if isinstance(features, Failure):
            return features
        self._pool.release()
        return None

    async def close(self) -> None:
        await self._pool.close()


class Sending:
    """A letter with a place in the pool: `commit` or `abandon` it, once."""

    __slots__ = ("_letter", "_pool", "_spent")

    def __init__(self, pool: Pool, letter: Letter) -> None:
        self._pool = pool
        self._letter = letter
        self._spent = False

    async def commit(self) -> Accepted | Failure:
        """Send it. `maybe_sent` is set only when the final dot may be out and no answer came."""
        self._spend()
        job = self._pool.submit(self._letter)
        try:
            outcome = await job.outcome
        except asyncio.CancelledError:
            self._pool.withdraw(job)
            raise
        finally:
            self._pool.release()
        if self._letter.refused:
            return replace(outcome, refused=self._letter.refused | outcome.refused)
        return outcome

    async def abandon(self) -> None:
        """Nothing was said to the server about this message."""
        self._spend()
        self._pool.release()

    def _spend(self) -> None:
        if self._spent:
            raise RuntimeError("a prepared send is committed or abandoned once")
        self._spent = True


def _own_address(settings: SmtpSettings) -> str | None:
    """Submission servers mostly let a user send as himself."""
    if settings.credentials is None or address_problem(settings.credentials.user):
        return None
    return settings.credentials.user
