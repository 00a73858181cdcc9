"""The service of verdict mails with its files, in one process: the clock is set by hand."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2

from homing import Homing
from homing.observers.alert_log import AlertLog
from homing.observers.route_notices import RouteNotices
from homing.plugins.store import store_for
from homing.plugins.value import Service, Setup, Web
from homing.ports import Provider, Store
from homing.settings import Settings
from homing.testing.clocks import ManualClock
from homing.web.application import application
from homing_systems.verdicts import stripe
from homing_systems.verdicts.plugin import PLUGIN
from homing_systems.verdicts.settings import VerdictSettings
from homing_systems.verdicts.web import SERVICE
from tests.conformance.world import Answer, ScriptedProvider

SENDER = "oracle@example.org"
BASE = "http://127.0.0.1:8006"
SECRET = "whsec_test"
DAY_S = 24 * 3600.0
ODD_JSON = '{"b": 1.0,  "a": "\\u00e9 \\"q\\"", "n": 12345678901234567890, "deep": {"x": [null]}}'
PAID = {
    "session_id": "cs_1",
    "payment_status": "paid",
    "customer_email": "ann@example.org",
    "tier": "full",
    "query": 'Ist "das" gut? ✓',
}


class Office:
    """One process; what is due is worked on when a test says so."""

    def __init__(
        self,
        folder: Path,
        clock: ManualClock,
        *script: Answer,
        provider: Provider | None = None,
        web: Web = SERVICE,
        store: Store | None = None,
        **settings: Any,
    ) -> None:
        self.folder = folder
        self.clock = clock
        self.graph = ScriptedProvider(clock, script)
        self.settings = VerdictSettings(
            **{
                "queue": str(folder / "queue.jsonl"),
                "dead_letters": str(folder / "dead.jsonl"),
                "delivery_log": str(folder / "delivery.log"),
                "alert_log": str(folder / "ALERT.log"),
                "stripe_secret": SECRET,
                **settings,
            }
        )
        general = Settings(store=store_url(folder), sender=SENDER)
        store = store or store_for(general, PLUGIN)
        setup = Setup(self.settings, general, provider or self.graph, store=store)
        assert PLUGIN.notices is not None
        self.alarm = AlertLog(Path(self.settings.alert_log))
        self.homing = Homing(
            store,
            routes=PLUGIN.routes(setup),
            layouts=PLUGIN.layouts,
            notifiers=[RouteNotices(PLUGIN.notices(setup))],
            alarm=self.alarm,
            clock=clock,
            worker=False,
        )
        self.service = Service(self.homing, self.settings, general)
        self.app = application(self.homing, general, web=web, service=self.service)
        self.client = httpx2.AsyncClient(
            transport=httpx2.ASGITransport(app=self.app), base_url=BASE
        )

    @asynccontextmanager
    async def open(self) -> AsyncIterator[Office]:
        async with self.client, self.app.router.lifespan_context(self.app):
            yield self

    async def post(self, verdict: str = ODD_JSON, **changes: Any) -> httpx2.Response:
        """The verdict is put into the body as the text that it is."""
        return await self.client.post("/send-verdict-email", content=body(verdict, **changes))

    async def tell(
        self, event: bytes, *, header: str | None = None, **words: Any
    ) -> httpx2.Response:
        """As Stripe does."""
        header = signed(event, **words) if header is None else header
        return await self.client.post(
            "/webhook", content=event, headers={"Stripe-Signature": header}
        )

    async def work(self) -> int:
        return await self.homing.engine.run_until_idle()

    async def work_after(self, wait_s: float) -> int:
        self.clock.advance(wait_s)
        return await self.work()

    async def work_for(self, span_s: float) -> None:
        """Work at each moment at which something becomes due."""
        until_ms = self.clock.now_ms() + round(span_s * 1000)
        while True:
            await self.work()
            due_at_ms = await self.homing.store.next_due_ms(("verdicts",))
            if due_at_ms is None or due_at_ms > until_ms:
                break
            self.clock.advance(max(due_at_ms - self.clock.now_ms(), 0) / 1000)
        self.clock.advance((until_ms - self.clock.now_ms()) / 1000)

    def alerts(self) -> list[str]:
        return _lines(Path(self.settings.alert_log))

    def deliveries(self) -> list[str]:
        return _lines(Path(self.settings.delivery_log))

    def lines(self) -> list[dict[str, Any]]:
        """Of the queue, as another program reads it: the thirteen fields."""
        found = [json.loads(line) for line in _lines(self.folder / "queue.jsonl")]
        return [{name: line[name] for name in line if name != "_homing"} for line in found]

    def dead_letters(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in _lines(Path(self.settings.dead_letters))]


def store_url(folder: Path) -> str:
    return f"jsonl:///{folder}/queue.jsonl"


def body(verdict: str = ODD_JSON, **changes: Any) -> bytes:
    fields = json.dumps({**PAID, **changes}, ensure_ascii=False)
    return f'{fields[:-1]}, "verdict": {verdict}}}'.encode()


def completed(**changes: Any) -> bytes:
    """A finished checkout, as Stripe tells of it."""
    session = {
        "id": "cs_1",
        "object": "checkout.session",
        "payment_status": "paid",
        "customer_details": {"email": "ann@example.org", "name": "Ann"},
        "metadata": {"tier": "full", "query": PAID["query"]},
        **changes,
    }
    event = {"id": "evt_1", "type": stripe.COMPLETED, "data": {"object": session}}
    return json.dumps(event).encode()


def signed(event: bytes, *, secret: str = SECRET, age_s: int = 0) -> str:
    at_s = int(time.time()) - age_s
    return f"t={at_s},v1={stripe.signature(event, secret, at_s)}"


@asynccontextmanager
async def verdict_server(answers: dict[str, bytes]) -> AsyncIterator[str]:
    """Answers `GET /{session_id}` with the bytes given for it; 404 for others."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        name = head.split(b" ")[1].decode().rpartition("/")[2]
        status, data = (b"200 OK", answers[name]) if name in answers else (b"404 Not Found", b"")
        length = str(len(data)).encode()
        writer.write(b"HTTP/1.1 " + status + b"\r\nConnection: close\r\nContent-Length: " + length)
        writer.write(b"\r\n\r\n" + data)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/verdicts"


def _lines(path: Path) -> list[str]:
    return path.read_text().split("\n")[:-1] if path.exists() else []
