"""Reviews as one value. Their stages are the application's own code, so programs that do not have
it accept, show and repair reviews and leave the work to `homing worker --app`."""

from __future__ import annotations

from msgspec.structs import replace

from homing import Route
from homing.domain.delivery import Content
from homing.domain.errors import HomingError
from homing.plugins import NoSettings, Plugin, Setup, queue_name
from homing.ports import Outcome, Work
from homing_systems.reviews.record import JOB_LAYOUT, ROW_LAYOUT
from homing_systems.reviews.route import NAME, RECIPIENT, reviews_route


def routes(setup: Setup[NoSettings]) -> tuple[Route, ...]:
    route = reviews_route(setup.provider, fetch=_elsewhere, llm=_elsewhere, write=_unwritten)
    return (replace(route, concurrency=0),)


async def _elsewhere(work: Work) -> Outcome:
    raise HomingError(f"stage {work.delivery.stage!r} is the application's own")


def _unwritten(content: Content, address: str) -> bytes:
    del content, address
    raise HomingError("the message to a recipient is the application's own")


PLUGIN = Plugin(
    name="reviews",
    about="Reviews of changelists: fetched, judged by a model, sent to each recipient once.",
    settings=NoSettings,
    routes=routes,
    layouts={NAME: JOB_LAYOUT, queue_name(NAME, RECIPIENT): ROW_LAYOUT},
)
