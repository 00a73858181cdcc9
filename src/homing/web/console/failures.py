"""Dead letters in groups: deliveries with the same error are repaired together."""

from __future__ import annotations

from collections.abc import Iterable

from starlette.responses import Response

from homing.engine.ops.advice import FIXED_ELSEWHERE, advice
from homing.runtime.app import Homing
from homing.web.console.deliveries import Deliveries
from homing.web.console.rendering import Rendering
from homing.web.console.visits import Page, Visit


class Failures:
    def __init__(self, homing: Homing, deliveries: Deliveries, rendering: Rendering) -> None:
        self._homing = homing
        self._deliveries = deliveries
        self._rendering = rendering

    def pages(self) -> Iterable[Page]:
        return (Page("GET", "/failures", "read", self.show),)

    async def show(self, visit: Visit) -> Response:
        visit.query(frozenset())
        engine = self._homing.engine
        groups = await visit.ops.failures()
        newest = [group.newest for group in groups if group.newest is not None]
        rows = {row.view.delivery_id: row for row in await self._deliveries.rows(visit, newest)}
        return self._rendering.page(
            visit,
            "failures.html",
            place="failures",
            groups=groups,
            rows=rows,
            advice=advice,
            fixed_elsewhere=FIXED_ELSEWHERE,
            known=frozenset(engine.routes),
            pausable=[name for name in engine.routes if engine.pausing.fact(name) is None],
        )
