"""`/healthz`: the process runs. `/readyz`: the store can be used. `/metrics`: counts."""

from __future__ import annotations

import asyncio

from starlette.responses import Response

from homing.domain.errors import HomingError
from homing.engine.process.store_report import reason_of, store_warnings
from homing.runtime.app import Homing
from homing.web.api.intake import Intake
from homing.web.api.listing import Listing
from homing.web.api.schemas import HealthOut
from homing.web.http.answers import Answer, json_answer
from homing.web.http.calls import Call

ANSWER_WITHIN_S = 2.0
# How long a refused write makes it unready, unless one has succeeded since.
REMEMBERED_S = 10.0
EXPOSITION = b"text/plain; version=0.0.4; charset=utf-8"


class Health:
    def __init__(self, homing: Homing, listing: Listing, intake: Intake) -> None:
        self._homing = homing
        self._listing = listing
        self._intake = intake

    async def healthz(self, call: Call) -> Response:
        del call
        return json_answer(HealthOut("ok", []))

    async def readyz(self, call: Call) -> Response:
        del call
        problems: list[str] = []
        degraded: list[str] = []
        engine = self._homing.engine
        try:
            async with asyncio.timeout(ANSWER_WITHIN_S):
                degraded = await store_warnings(self._homing.store, engine.clock)
        except TimeoutError:
            problems.append("the store does not answer")
        except HomingError:
            problems.append("the store refuses to answer")
        refusal = self._intake.refusal
        if refusal is not None and engine.clock.steady_s() < refusal[0] + REMEMBERED_S:
            problems.append(f"the store refuses to write: {reason_of(refusal[1])}")
        problems += engine.health.problems
        if problems:
            return json_answer(HealthOut("not ready", problems), 503)
        # It still accepts and stores: what cannot be sent waits for its provider. This is shown
        # without a token, so the words of a server are left to the log and to `homing health`.
        degraded += [f"the provider of route {route} fails" for route in engine.provider_problems]
        return json_answer(HealthOut("degraded" if degraded else "ok", degraded))

    async def metrics(self, call: Call) -> Response:
        """Deliveries by route and state, for Prometheus; telemetry adds more if installed."""
        del call
        stats = await self._listing.collect_stats()
        lines = ["# TYPE homing_deliveries gauge"]
        for route in stats.routes:
            lines += [
                f'homing_deliveries{{route="{_label(route.route)}",state="{state}"}} {number}'
                for state, number in sorted(route.states.items())
            ]
        lines.append("# TYPE homing_route_paused gauge")
        lines += [
            f'homing_route_paused{{route="{_label(route.route)}"}} {int(route.paused)}'
            for route in stats.routes
        ]
        lines += ["# TYPE homing_workers gauge", f"homing_workers {len(stats.workers)}", ""]
        return Answer("\n".join(lines).encode(), kind=EXPOSITION)


def _label(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
