"""Sends through the two halves of the provider, as the engine does it."""

from homing.domain.failure import Failure
from homing.ports import Accepted, Envelope
from homing.providers.graph.provider import GraphProvider

TOKEN = "0123456789abcdef"
MIME = (
    b"From: shop@example.org\r\nTo: Ann <ann@example.org>\r\nSubject: Booked\r\n"
    b"Message-ID: <%s@example.org>\r\nContent-Type: text/plain; charset=utf-8\r\n\r\n"
    b"See you Monday\r\n"
) % TOKEN.encode()


def envelope(*recipients: str, data: bytes = MIME) -> Envelope:
    return Envelope(
        delivery_id="d-1", token=TOKEN, recipients=recipients or ("ann@example.org",), data=data
    )


async def send(provider: GraphProvider, *recipients: str) -> Accepted | Failure:
    ready = await provider.prepare(envelope(*recipients))
    return ready if isinstance(ready, Failure) else await ready.commit()
