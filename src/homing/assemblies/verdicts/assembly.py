"""Verdict mails as one value: their settings, and their route made from them."""

from __future__ import annotations

from typing import Annotated

from msgspec import Struct

from homing.assemblies.verdicts.mail import composer
from homing.assemblies.verdicts.record import SHAPE
from homing.assemblies.verdicts.route import (
    DEFAULT_MAX_ATTEMPTS,
    NAME,
    verdict_plan,
    verdicts_route,
)
from homing.assembly import Assembly, Setup
from homing.engine.route import Route
from homing.settings.own_names import env


class VerdictSettings(Struct, frozen=True, kw_only=True):
    max_attempts: Annotated[
        int,
        env(
            "EMAIL_RETRY_MAX_ATTEMPTS",
            "After this many retries it becomes a dead letter.",
            ge=1,
            le=1000,
        ),
    ] = DEFAULT_MAX_ATTEMPTS


def routes(setup: Setup[VerdictSettings]) -> tuple[Route, ...]:
    return (
        verdicts_route(
            setup.provider,
            composer(setup.sender),
            is_logged=_not_logged,
            plan=verdict_plan(setup.settings.max_attempts),
            sign=setup.sign,
        ),
    )


async def _not_logged(session_id: str) -> bool:
    """The engine's own record is the only evidence here: there is no delivery log to ask."""
    del session_id
    return False


ASSEMBLY = Assembly(
    name="verdicts",
    about="Verdict mails of paid sessions: four retries after the inline call, then a dead letter.",
    settings=VerdictSettings,
    routes=routes,
    prefixes=("EMAIL_RETRY_",),
    shapes={NAME: SHAPE},
)
