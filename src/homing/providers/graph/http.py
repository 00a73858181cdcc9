"""One HTTP exchange: an answer, or a failure that says whether the request may have arrived."""

from __future__ import annotations

from typing import Any

import httpx2
import msgspec

from homing.domain.failure import Failure
from homing.domain.redaction import redact
from homing.providers.graph.answers import ANSWER_LOST, UNREACHABLE
from homing.providers.graph.retry_after import retry_after_s

# The time limit of the attempt is the real one. These end a call that no attempt waits for.
TIMEOUTS = httpx2.Timeout(60.0, connect=15.0)
# With these the request never left this machine.
NOT_SENT = (
    httpx2.ConnectError,
    httpx2.ConnectTimeout,
    httpx2.PoolTimeout,
    httpx2.ProxyError,
    httpx2.UnsupportedProtocol,
)


def new_client(*, local: bool) -> httpx2.AsyncClient:
    """A proxy of the environment is not asked for what stays on this machine."""
    return httpx2.AsyncClient(timeout=TIMEOUTS, follow_redirects=False, trust_env=not local)


async def exchange(
    client: httpx2.AsyncClient, method: str, url: str, *, sends: bool = False, **words: Any
) -> httpx2.Response | Failure:
    """`sends`: without an answer, the mail may have been sent."""
    try:
        return await client.request(method, url, **words)
    except NOT_SENT as error:
        return Failure(UNREACHABLE, detail=redact(f"{type(error).__name__} {error}"))
    except httpx2.RequestError as error:
        detail = redact(f"{type(error).__name__} {error}")
        return Failure(ANSWER_LOST, detail=detail, maybe_sent=sends)


def fields_of(answer: httpx2.Response) -> dict[str, Any]:
    """The JSON object of an answer; empty if it has none."""
    try:
        value = msgspec.json.decode(answer.content)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return {}
    return value if isinstance(value, dict) else {}


def wait_of(answer: httpx2.Response) -> float | None:
    return retry_after_s(answer.headers.get("Retry-After"), answer.headers.get("Date"))


def said_by(answer: httpx2.Response) -> str:
    """Graph's own code and message."""
    error = fields_of(answer).get("error")
    if not isinstance(error, dict):
        return ""
    return " ".join(str(error[name]) for name in ("code", "message") if error.get(name))
