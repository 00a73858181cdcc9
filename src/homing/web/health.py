"""`/healthz`: the process lives. `/readyz`: it can keep its promise right now."""

from __future__ import annotations

import asyncio

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from homing.app import Homing
from homing.domain.errors import HomingError
from homing.web.schemas import HealthOut

ANSWER_WITHIN_S = 2.0


class Health:
    def __init__(self, homing: Homing) -> None:
        self._homing = homing

    async def healthz(self, request: Request) -> Response:
        del request
        return _answer(HealthOut("ok", []))

    async def readyz(self, request: Request) -> Response:
        del request
        problems: list[str] = []
        try:
            async with asyncio.timeout(ANSWER_WITHIN_S):
                await self._homing.store.facts("parked", limit=1)
        except TimeoutError:
            problems.append("the store does not answer")
        except HomingError:
            problems.append("the store refuses to answer")
        return _answer(HealthOut("ok" if not problems else "not ready", problems))


def _answer(health: HealthOut) -> Response:
    status = 503 if health.problems else 200
    return Response(msgspec.json.encode(health), status, media_type="application/json")
