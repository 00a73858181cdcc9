"""Envelopes, and the two steps of a send in one."""

import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from homing.domain.failure import Failure
from homing.ports import Accepted, Envelope
from homing.providers.smtp import SmtpProvider

DATA = b"From: <shop@example.org>\r\nTo: <ann@example.org>\r\nSubject: hi\r\n\r\nHello\r\n"
USER = "shop@example.org"
PASSWORD = "correct-horse-4711"
SECRETS = tuple(
    spelling
    for word in (USER, PASSWORD, f"\0{USER}\0{PASSWORD}")
    for spelling in (word.encode(), base64.b64encode(word.encode()))
)


def envelope(
    *recipients: str, data: bytes = DATA, sender: str | None = "shop@example.org"
) -> Envelope:
    return Envelope(
        delivery_id="d1",
        token="t1",
        recipients=recipients or ("ann@example.org",),
        data=data,
        sender=sender,
    )


@asynccontextmanager
async def provider(url: str) -> AsyncIterator[SmtpProvider]:
    made = SmtpProvider.from_url(url)
    try:
        yield made
    finally:
        await made.close()


async def send(smtp: SmtpProvider, message: Envelope | None = None) -> Accepted | Failure:
    ready = await smtp.prepare(message or envelope())
    return ready if isinstance(ready, Failure) else await ready.commit()


async def accepted(smtp: SmtpProvider, message: Envelope | None = None) -> Accepted:
    outcome = await send(smtp, message)
    assert isinstance(outcome, Accepted), outcome
    return outcome


async def failed(smtp: SmtpProvider, message: Envelope | None = None) -> Failure:
    outcome = await send(smtp, message)
    assert isinstance(outcome, Failure), outcome
    return outcome


def prove(smtp: SmtpProvider, latency_s: float) -> None:
    """As if many messages had been answered after this time."""
    for _ in range(100):
        smtp._pool.answered(latency_s)
