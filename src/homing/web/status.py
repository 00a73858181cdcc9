"""The plain page at `/`: deliveries by route and state."""

from __future__ import annotations

from html import escape

from starlette.responses import Response

from homing.engine.unserved import unserved_text
from homing.web.answers import CSS, HTML, Answer
from homing.web.calls import Call
from homing.web.listing import Listing
from homing.web.schemas import StatsOut

STATES = ("pending", "in_flight", "waiting", "delivered", "suppressed", "failed", "dismissed")

STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 60rem; padding: 0 1rem }
table { border-collapse: collapse; width: 100% }
th, td { padding: .4rem .6rem; text-align: right; border-bottom: 1px solid #ccc }
th:first-child, td:first-child { text-align: left }
.bad { font-weight: bold; color: #a00 }
.muted { color: #666 }
"""


class StatusPage:
    def __init__(self, listing: Listing) -> None:
        self._listing = listing

    async def page(self, call: Call) -> Response:
        del call
        return Answer(render(await self._listing.collect_stats()).encode(), kind=HTML)

    async def style(self, call: Call) -> Response:
        del call
        return Answer(STYLE.encode(), kind=CSS)


def render(stats: StatsOut) -> str:
    head = "".join(f"<th scope=col>{escape(state)}</th>" for state in STATES)
    rows = "".join(_row(route.route, route.states, parked=route.parked) for route in stats.routes)
    workers = len(stats.workers)
    running = f"{workers} worker process(es) running" if workers else "no worker is running"
    unserved = "".join(
        f"<p class=bad>{escape(unserved_text(lane, number))}.</p>"
        for lane, number in stats.unserved.items()
    )
    return (
        "<!doctype html><html lang=en><meta charset=utf-8><title>Homing</title>"
        "<meta name=viewport content='width=device-width, initial-scale=1'>"
        "<link rel=stylesheet href=/static/status.css>"
        f"<h1>Homing</h1><p class={'muted' if workers else 'bad'}>{escape(running)}.</p>{unserved}"
        f"<table><thead><tr><th scope=col>route</th>{head}</tr></thead><tbody>{rows}</tbody>"
        "</table><p class=muted>The API is at <code>/api/v1</code>; dead letters:"
        " <a href='/api/v1/deliveries?status=failed'>failed</a>.</p></html>"
    )


def _row(route: str, states: dict[str, int], *, parked: bool) -> str:
    name = escape(route) + (" <span class=bad>parked</span>" if parked else "")
    cells = "".join(
        f"<td class={'bad' if state == 'failed' and states.get(state) else 'plain'}>"
        f"{states.get(state, 0)}</td>"
        for state in STATES
    )
    return f"<tr><td>{name}</td>{cells}</tr>"
