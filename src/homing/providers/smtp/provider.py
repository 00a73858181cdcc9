"""`SmtpProvider`: the `Provider` port over a pool of SMTP connections."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Self

from msgspec.structs import replace

from homing.domain.failure import Failure
from homing.domain.loopback import is_loopback
from homing.ports import Accepted, Envelope, Finding
from homing.providers.smtp.connection import Job
from homing.providers.smtp.letter import Letter, compose, fit
from homing.providers.smtp.opening import open_session
from homing.providers.smtp.pool import Pool
from homing.providers.smtp.tls import tls_context
from homing.providers.smtp.url import SmtpSettings, parse_url
from homing.providers.smtp.wire import address_problem

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
        context = tls_context(settings)
        self._pool = Pool(settings, lambda: open_session(settings, context))

    @classmethod
    def from_url(cls, url: str) -> Self:
        """Raises SettingsError that names the option at fault and shows no secret."""
        return cls(parse_url(url))

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
        features, places = reserved
        prepared: list[Sending | Failure] = []
        for letter in letters:
            fitting = letter if isinstance(letter, Failure) else fit(letter, features)
            if isinstance(fitting, Failure):
                prepared.append(fitting)
            elif places:
                places -= 1
                prepared.append(Sending(self._pool, fitting))
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
        return [*found, Finding("provider", "good", "reachable, trusted, credentials accepted")]

    async def close(self) -> None:
        await self._pool.close()


class Sending:
    """A letter with a place in the pool: `commit`, `start` or `abandon` it, once."""

    __slots__ = ("_job", "_letter", "_pool", "_told")

    def __init__(self, pool: Pool, letter: Letter) -> None:
        self._pool = pool
        self._letter = letter
        self._job: Job | None = None
        self._told: Callable[[Accepted | Failure], None] | None = None

    async def commit(self) -> Accepted | Failure:
        """Send it. `maybe_sent` is set only when the final dot may be out and no answer came."""
        answer: asyncio.Future[Accepted | Failure] = asyncio.get_running_loop().create_future()

        def told(outcome: Accepted | Failure) -> None:
            if not answer.done():  # the caller has been cancelled, and does not know it yet
                answer.set_result(outcome)

        self.start(told)
        try:
            return await answer
        except asyncio.CancelledError:
            self.withdraw()
            raise

    def start(self, told: Callable[[Accepted | Failure], None]) -> None:
        """As `commit`, for a caller that does not wait."""
        self._told = told
        self._pool.submit(self._spend())

    def withdraw(self) -> bool:
        if self._job is not None and not self._job.over:
            self._job.withdraw()
            self._pool.release()
        return True

    async def abandon(self) -> None:
        """Nothing of this message was sent to the server."""
        self._spend()
        self._pool.release()

    def _spend(self) -> Job:
        if self._job is not None:
            raise RuntimeError("a prepared send is committed or abandoned once")
        self._job = Job(self._letter, self._answered)
        return self._job

    def _answered(self, outcome: Accepted | Failure) -> None:
        self._pool.release()
        if self._letter.refused:
            outcome = replace(outcome, refused=self._letter.refused | outcome.refused)
        if self._told is not None:
            self._told(outcome)


def _own_address(settings: SmtpSettings) -> str | None:
    """Submission servers mostly let a user send as himself."""
    if settings.credentials is None or address_problem(settings.credentials.user):
        return None
    return settings.credentials.user
