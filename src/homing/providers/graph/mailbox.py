"""The requests to one mailbox, each with a fresh access token."""

from __future__ import annotations

import base64
from datetime import datetime
from typing import Any
from urllib.parse import quote

import httpx2
from msgspec import Struct

from homing.domain.failure import Failure
from homing.providers.graph.answers import UNAUTHORIZED, failure_of
from homing.providers.graph.http import exchange, fields_of, said_by, wait_of
from homing.providers.graph.retry_after import timestamp_of
from homing.providers.graph.settings import GraphSettings
from homing.providers.graph.tokens import AccessToken, Tokens

# With it, the id of a draft stays the same when the message moves to the sent items.
IMMUTABLE = {"Prefer": 'IdType="ImmutableId"'}
MIME = {"Content-Type": "text/plain"}
TIDY_UP_S = 5.0


class Copy(Struct, frozen=True):
    """A message in the mailbox. `age_s` is by the server's clock."""

    id: str
    is_draft: bool
    sent_at_ms: int | None
    age_s: float


class Mailbox:
    def __init__(self, settings: GraphSettings, client: httpx2.AsyncClient, tokens: Tokens) -> None:
        self._client = client
        self._tokens = tokens
        self._url = f"{settings.api_url}/users/{quote(settings.sender, safe='@')}"

    async def send(self, mime: bytes) -> httpx2.Response | Failure:
        return await self._call("POST", "/sendMail", sends=True, headers=MIME, content=_b64(mime))

    async def create_draft(self, mime: bytes) -> str | Failure:
        """The id of the draft, which only the owner of the mailbox sees."""
        headers = {**MIME, **IMMUTABLE}
        answer = await self._call("POST", "/messages", headers=headers, content=_b64(mime))
        if isinstance(answer, Failure):
            return answer
        draft_id = fields_of(answer).get("id")
        if answer.status_code != 201 or not isinstance(draft_id, str):
            return _failure(answer)
        return draft_id

    async def send_draft(self, draft_id: str) -> httpx2.Response | Failure:
        path = f"{_message(draft_id)}/send"
        return await self._call("POST", path, sends=True, headers=IMMUTABLE)

    async def delete(self, draft_id: str) -> bool:
        """Whether it is gone."""
        path = _message(draft_id)
        answer = await self._call("DELETE", path, headers=IMMUTABLE, timeout=TIDY_UP_S)
        return not isinstance(answer, Failure) and answer.status_code in (204, 404)

    async def copies(self, message_id: str) -> list[Copy] | Failure:
        """The messages with this Message-ID, in all folders."""
        params = {
            "$filter": f"internetMessageId eq '{message_id.replace(chr(39), chr(39) * 2)}'",
            "$select": "id,isDraft,createdDateTime,sentDateTime",
        }
        answer = await self._call("GET", "/messages", headers=IMMUTABLE, params=params)
        if isinstance(answer, Failure):
            return answer
        found = fields_of(answer).get("value")
        if answer.status_code != 200 or not isinstance(found, list):
            return _failure(answer)
        now_ms = _ms_of_date(answer.headers.get("Date"))
        return [_copy(each, now_ms) for each in found if isinstance(each, dict)]

    async def _call(
        self, method: str, path: str, *, sends: bool = False, **words: Any
    ) -> httpx2.Response | Failure:
        """A refused access token is renewed once: the request was not carried out."""
        token = await self._tokens.current()
        if isinstance(token, Failure):
            return token
        answer = await self._authorized(token, method, path, sends=sends, **words)
        if isinstance(answer, Failure) or answer.status_code != UNAUTHORIZED:
            return answer
        token = await self._tokens.renewed(token)
        if isinstance(token, Failure):
            return token
        return await self._authorized(token, method, path, sends=sends, **words)

    async def _authorized(
        self, token: AccessToken, method: str, path: str, *, headers: dict[str, str], **words: Any
    ) -> httpx2.Response | Failure:
        headers = {**headers, "Authorization": f"Bearer {token.value}"}
        return await exchange(self._client, method, self._url + path, headers=headers, **words)


def failure_from(answer: httpx2.Response) -> Failure:
    """Of a call that sends."""
    return failure_of(answer.status_code, said_by(answer), wait_of(answer), sends=True)


def _failure(answer: httpx2.Response) -> Failure:
    return failure_of(answer.status_code, said_by(answer), wait_of(answer), sends=False)


def _message(message_id: str) -> str:
    return f"/messages/{quote(message_id, safe='')}"


def _b64(mime: bytes) -> bytes:
    return base64.b64encode(mime)


def _copy(fields: dict[str, Any], now_ms: int | None) -> Copy:
    created_ms = _ms_of(fields.get("createdDateTime"))
    # A draft of unknown age counts as new.
    age_ms = 0 if now_ms is None or created_ms is None else now_ms - created_ms
    return Copy(
        id=str(fields.get("id", "")),
        is_draft=fields.get("isDraft") is True,
        sent_at_ms=_ms_of(fields.get("sentDateTime")),
        age_s=age_ms / 1000,
    )


def _ms_of(value: object) -> int | None:
    try:
        return round(datetime.fromisoformat(str(value)).timestamp() * 1000)
    except ValueError:
        return None


def _ms_of_date(value: str | None) -> int | None:
    at_s = timestamp_of(value or "")
    return None if at_s is None else round(at_s * 1000)
