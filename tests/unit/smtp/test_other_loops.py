"""The client works on any event loop that serves `asyncio`, uvloop above all."""

from __future__ import annotations

import uvloop

from homing.ports import Accepted, Envelope
from homing.providers.smtp import SmtpProvider
from tests.servers import smtp_sink


def test_a_mail_is_sent_under_uvloop() -> None:
    """`homing serve` runs on uvloop where it is installed."""

    async def send(port: int) -> object:
        provider = SmtpProvider.from_url(f"smtp://127.0.0.1:{port}?tls=none")
        envelope = Envelope(
            delivery_id="d",
            token="t",
            recipients=("ann@example.org",),
            data=b"Subject: hello\r\n\r\nAnn\r\n",
            sender="shop@example.org",
        )
        ready = await provider.prepare(envelope)
        assert not isinstance(ready, Exception)
        answer = await ready.commit() if hasattr(ready, "commit") else ready
        await provider.close()
        return answer

    with smtp_sink() as sink:
        assert isinstance(uvloop.run(send(sink.port)), Accepted)
