"""The Stripe webhook: a paid checkout becomes one verdict mail, however often Stripe calls."""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, TypeAlias
from urllib.parse import quote, urlsplit

import msgspec

from homing.domain.errors import InvalidRequest
from homing.domain.loopback import is_loopback
from homing.plugins import HttpRequest, HttpResponse, Service
from homing_systems.verdicts import stripe
from homing_systems.verdicts.delivering import (
    alert,
    alert_if_locked,
    deliver,
    enqueue,
    known_outcome,
)
from homing_systems.verdicts.endpoint import PATH, answer_for, body_for, verdict_text
from homing_systems.verdicts.verdict import PAID, Verdict, check

if TYPE_CHECKING:
    import httpx2

log = logging.getLogger("homing.verdicts")

WEBHOOK_PATH = "/webhook"
VERDICT_TIMEOUT_S = 10.0
# The service records before it sends: what it does not answer in time is recorded already, or is
# recorded here, once.
SERVICE_TIMEOUT_S = 20.0
MAX_VERDICT_BYTES = 900_000

Deliver: TypeAlias = Callable[[Service[Any], Verdict], Awaitable[HttpResponse]]
Handler: TypeAlias = Callable[[Service[Any], HttpRequest], Awaitable[HttpResponse]]


class NoVerdict(Exception):
    """The verdict of a session is not available now."""


def webhook(deliver_to: Deliver) -> Handler:
    """The handler; it passes the verdict to `deliver_to`. Stripe repeats what is not 2xx."""

    async def handle(service: Service[Any], request: HttpRequest) -> HttpResponse:
        secret = service.settings.stripe_secret
        header = request.headers.get("stripe-signature", "")
        # Stripe signs by real time, however fast the clock of this program runs.
        if secret is None or not stripe.is_signed(request.body, header, secret, time.time()):
            return HttpResponse(status=400, json={"detail": "the signature is not valid"})
        try:
            session = stripe.completed_session(request.body)
        except msgspec.DecodeError as error:
            return HttpResponse(status=400, json={"detail": f"the event cannot be read: {error}"})
        if session is None or session.payment_status != PAID:
            return HttpResponse(json={"outcome": "ignored"})
        return await _deliver(service, session, deliver_to)

    return handle


async def _deliver(
    service: Service[Any], session: stripe.Session, deliver_to: Deliver
) -> HttpResponse:
    metadata = session.metadata or stripe.Metadata()
    verdict = Verdict(
        session_id=session.id,
        customer_email=session.email,
        tier=metadata.tier,
        query=metadata.query,
        verdict="{}",
        payment_status=session.payment_status,
    )
    try:
        check(verdict)
        async with alert_if_locked(service, session.id):
            known = await known_outcome(service, session.id)
        if known is not None:
            return HttpResponse(json=answer_for(known).json)
        if verdict.customer_email:
            text = await verdict_of(service.settings.verdict_url, session.id)
            verdict = msgspec.structs.replace(verdict, verdict=text)
        answer = await deliver_to(service, verdict)
    except InvalidRequest as error:
        await alert(service, "REFUSED", f"session_id={session.id} {error}")
        raise
    except NoVerdict as error:
        await alert(service, "NO VERDICT", f"session_id={session.id} {error}")
        return HttpResponse(status=503, json={"detail": "the verdict cannot be had"})
    # To Stripe, all that is recorded or settled is done.
    return msgspec.structs.replace(answer, status=200)


async def verdict_of(url: str | None, session_id: str) -> str:
    """The whole answer is the verdict; NoVerdict if there is none."""
    import httpx2  # noqa: PLC0415 - few processes fetch

    if url is None:
        raise NoVerdict("VERDICT_URL is not set")
    try:
        async with _client(url, VERDICT_TIMEOUT_S) as client:
            answer = await client.get(f"{url.rstrip('/')}/{quote(session_id, safe='')}")
    except httpx2.HTTPError as error:
        raise NoVerdict(f"{url} does not answer: {type(error).__name__}") from error
    if answer.status_code != 200:
        raise NoVerdict(f"{url} answers {answer.status_code}")
    if len(answer.content) > MAX_VERDICT_BYTES:
        raise NoVerdict(f"the answer of {url} is larger than {MAX_VERDICT_BYTES:,} bytes")
    try:
        return verdict_text(answer.content)
    except InvalidRequest as error:
        raise NoVerdict(f"the answer of {url}: {error}") from None


def _client(url: str, timeout_s: float) -> httpx2.AsyncClient:
    """A proxy of the environment is not asked for what stays on this machine."""
    import httpx2  # noqa: PLC0415 - as above

    local = is_loopback(urlsplit(url).hostname or "")
    return httpx2.AsyncClient(timeout=timeout_s, trust_env=not local)


async def deliver_here(service: Service[Any], verdict: Verdict) -> HttpResponse:
    return answer_for(await deliver(service, verdict))


async def deliver_by_service(service: Service[Any], verdict: Verdict) -> HttpResponse:
    """Ask the mail service; if it is down or fails, record it in the queue for the worker."""
    import httpx2  # noqa: PLC0415 - as above

    settings = service.settings
    headers = {"Content-Type": "application/json"}
    if settings.service_token is not None:
        headers["Authorization"] = f"Bearer {settings.service_token}"
    url = f"{settings.service_url.rstrip('/')}{PATH}"
    try:
        async with _client(url, SERVICE_TIMEOUT_S) as client:
            answer = await client.post(url, content=body_for(verdict), headers=headers)
        problem = "" if answer.status_code in (200, 202) else f"answers {answer.status_code}"
    except httpx2.HTTPError as error:
        problem = f"does not answer: {type(error).__name__}"
    else:
        if not problem:
            return HttpResponse(status=answer.status_code, body=answer.content)
    log.warning("service_failed url=%s session_id=%s: it %s", url, verdict.session_id, problem)
    return answer_for(await enqueue(service, verdict))
