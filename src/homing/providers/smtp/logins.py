"""The logins of one provider: one at a time, and a refusal is believed for a moment."""

from __future__ import annotations

import asyncio
from collections.abc import Generator

from homing.providers.smtp.auth import log_in, mechanisms_for
from homing.providers.smtp.credentials import Credentials
from homing.providers.smtp.replies import Reply
from homing.providers.smtp.steps import Refused, Say
from homing.providers.smtp.talk import Login
from homing.providers.smtp.token import current_token
from homing.providers.smtp.url import SmtpSettings

# Servers lock an account after a few wrong passwords.
BELIEVE_REFUSAL_S = 1.0


class Logins:
    """Hold `one_at_a_time` over each: others wait for its answer before they try the same."""

    def __init__(self, settings: SmtpSettings, credentials: Credentials) -> None:
        self.one_at_a_time = asyncio.Lock()
        self._settings = settings
        self._credentials = credentials
        self._order = mechanisms_for(credentials.takes, settings.auth)
        self._refusal: Reply | None = None
        self._refused_at_s = 0.0

    @property
    def recent_refusal(self) -> Reply | None:
        age_s = asyncio.get_running_loop().time() - self._refused_at_s
        return self._refusal if age_s < BELIEVE_REFUSAL_S else None

    async def steps(self, offered: frozenset[str]) -> Generator[Say, Reply, None]:
        """What to say for the next login."""
        if (refusal := self.recent_refusal) is not None:
            raise Refused("auth", refusal)
        known = self._credentials
        secret = known.password if known.token is None else await current_token(known.token)
        login = Login(known.user, secret, self._settings.host, self._settings.port)
        return self._remembering(log_in(self._order, offered, login))

    def _remembering(self, steps: Generator[Say, Reply, None]) -> Generator[Say, Reply, None]:
        try:
            yield from steps
        except Refused as refused:
            if isinstance(refused.heard, Reply) and refused.heard.kind == 5:
                self._refusal = refused.heard
                self._refused_at_s = asyncio.get_running_loop().time()
            raise
