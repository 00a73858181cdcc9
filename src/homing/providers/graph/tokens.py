"""Access tokens, by the refresh token in the `.env` file, which is replaced at every refresh."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import httpx2
from msgspec import Struct

from homing.domain.failure import Failure
from homing.domain.known_secrets import mask_secret
from homing.providers.graph.answers import TOKEN_REVOKED, token_failure
from homing.providers.graph.env_file import EnvFile
from homing.providers.graph.host_locks import lock_one
from homing.providers.graph.http import exchange, fields_of, wait_of
from homing.providers.graph.settings import REFRESH_TOKEN, GraphSettings

log = logging.getLogger("homing.graph")

# An access token is renewed this long before its end, so that it does not end on its way.
MARGIN_S = 60.0
SHORTEST_LIFE_S = 1.0
DEFAULT_LIFE_S = 3600.0
MAY_DRAFT = "mail.readwrite"

Tell = Callable[[str], Awaitable[None]]


class AccessToken(Struct, frozen=True):
    value: str
    may_draft: bool
    good_until_s: float

    def __repr__(self) -> str:
        return "AccessToken([hidden])"


class Unsaved(Struct, frozen=True):
    """A refresh token that could not be written, and the one that is in the file instead."""

    token: str
    in_file: str

    def __repr__(self) -> str:
        return "Unsaved([hidden])"


class Tokens:
    """`may_draft` is None until a token is known. `problem` is what a person has to fix.

    `tell` is called if a new refresh token could not be stored.
    """

    def __init__(self, settings: GraphSettings, client: httpx2.AsyncClient, tell: Tell) -> None:
        self._settings = settings
        self._client = client
        self._tell = tell
        self._file = EnvFile(settings.env_file)
        self._lock_path = settings.env_file.with_name(settings.env_file.name + ".lock")
        self._current: AccessToken | None = None
        self._refreshing: asyncio.Task[AccessToken | Failure] | None = None
        self._unsaved: Unsaved | None = None
        self.may_draft: bool | None = None
        self.problem: str | None = None

    async def current(self) -> AccessToken | Failure:
        if self._current is not None and time.monotonic() < self._current.good_until_s:
            return self._current
        return await self._refreshed()

    async def renewed(self, refused: AccessToken) -> AccessToken | Failure:
        """Another one than the one that was refused."""
        if self._current is not None and self._current is not refused:
            return self._current
        self._current = None
        return await self._refreshed()

    async def close(self) -> None:
        """Wait for a refresh, and try once more to store a token that only this process has."""
        if self._refreshing is not None:
            await asyncio.wait([self._refreshing])
        if self._unsaved is not None:
            async with self._locked():
                await self._store(self._unsaved.token, self._unsaved.in_file)

    async def _refreshed(self) -> AccessToken | Failure:
        """One refresh at a time for all senders; it continues if their time limits end."""
        if self._refreshing is None:
            self._refreshing = asyncio.create_task(self._refresh())
            self._refreshing.add_done_callback(self._end_refresh)
        return await asyncio.shield(self._refreshing)

    def _end_refresh(self, task: asyncio.Task[AccessToken | Failure]) -> None:
        self._refreshing = None
        if task.cancelled() or task.exception() is not None:
            return
        answer = task.result()
        if isinstance(answer, Failure):
            self.problem = f"{answer.error_class} {answer.detail}"
        else:
            self._current, self.may_draft, self.problem = answer, answer.may_draft, None

    async def _refresh(self) -> AccessToken | Failure:
        async with self._locked():
            return await self._refresh_locked()

    @asynccontextmanager
    async def _locked(self) -> AsyncIterator[None]:
        """Without a lock where there can be no lock file: then no token can be stored either."""
        lock = None
        try:
            lock = await lock_one([self._lock_path])
        except OSError as error:
            log.warning("graph_token_not_locked file=%s error=%s", self._lock_path, error)
        try:
            yield
        finally:
            if lock is not None:
                lock.release()

    async def _refresh_locked(self) -> AccessToken | Failure:
        """Read anew under the lock: another process may have replaced the token."""
        try:
            in_file = (await asyncio.to_thread(self._file.values)).get(REFRESH_TOKEN, "")
        except OSError as error:
            detail = f"{self._file.path}: {error.strerror}"
            return Failure("token_unavailable", detail=detail)
        if not in_file:
            detail = f"{REFRESH_TOKEN} is missing in {self._file.path}"
            return Failure(TOKEN_REVOKED, "route_fault", code="401", detail=detail)
        unsaved = self._unsaved
        token = unsaved.token if unsaved is not None and unsaved.in_file == in_file else in_file
        mask_secret(token, expires=True)
        answer = await self._ask(token)
        if isinstance(answer, Failure):
            return answer
        fields = fields_of(answer)
        if answer.status_code != 200 or not isinstance(fields.get("access_token"), str):
            code, said = str(fields.get("error", "")), str(fields.get("error_description", ""))
            return token_failure(answer.status_code, code, said, wait_of(answer))
        rotated = fields.get("refresh_token")
        if isinstance(rotated, str) and rotated and rotated != in_file:
            await self._store(rotated, in_file)
        return _access_token(fields)

    async def _ask(self, token: str) -> httpx2.Response | Failure:
        settings = self._settings
        form = {
            "grant_type": "refresh_token",
            "client_id": settings.client_id,
            "refresh_token": token,
        }
        if settings.client_secret:
            form["client_secret"] = settings.client_secret
        url = f"{settings.login_url}/{settings.tenant_id}/oauth2/v2.0/token"
        return await exchange(self._client, "POST", url, data=form)

    async def _store(self, rotated: str, in_file: str) -> None:
        """Before the access token is used: after a crash the file has a token that is good."""
        mask_secret(rotated, expires=True)
        try:
            stored = await asyncio.to_thread(
                self._file.replace, REFRESH_TOKEN, rotated, expected=in_file
            )
        except OSError as error:
            self._unsaved = Unsaved(rotated, in_file)
            log.error("graph_token_not_stored file=%s error=%s", self._file.path, error)  # noqa: TRY400 - a full disk is no bug
            await self._tell(
                f"the new {REFRESH_TOKEN} could not be stored in {self._file.path}"
                f" ({error.strerror}); only this process has it"
            )
            return
        self._unsaved = None
        if not stored:
            log.info("graph_token_changed_by_another file=%s", self._file.path)

    @property
    def is_unsaved(self) -> bool:
        return self._unsaved is not None


def _access_token(fields: dict[str, Any]) -> AccessToken:
    value, life_s = fields["access_token"], fields.get("expires_in", DEFAULT_LIFE_S)
    mask_secret(value, expires=True)
    try:
        life_s = float(life_s)
    except (TypeError, ValueError):
        life_s = DEFAULT_LIFE_S
    # A permission may be written with the address of the service before it.
    scopes = {scope.rpartition("/")[2].lower() for scope in str(fields.get("scope", "")).split()}
    good_s = max(life_s - MARGIN_S, life_s / 2, SHORTEST_LIFE_S)
    return AccessToken(value, MAY_DRAFT in scopes, time.monotonic() + good_s)
