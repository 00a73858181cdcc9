"""Verdict mails as one value: their settings, route, files, web table and programs."""

from __future__ import annotations

from homing.assemblies.verdicts.delivery_log import log_at
from homing.assemblies.verdicts.mail import composer
from homing.assemblies.verdicts.notices import notices
from homing.assemblies.verdicts.presence import files
from homing.assemblies.verdicts.programs import health, replay, serve, webhook
from homing.assemblies.verdicts.record import LAYOUT
from homing.assemblies.verdicts.route import NAME, verdict_plan, verdicts_route
from homing.assemblies.verdicts.settings import (
    PREFIXES,
    VerdictSettings,
    defaults,
    environ_with_file,
)
from homing.assemblies.verdicts.web import SERVICE
from homing.engine.route import Route
from homing.plugins.value import Assembly, Setup
from homing.ports import AsksLog


def routes(setup: Setup[VerdictSettings]) -> tuple[Route, ...]:
    settings = setup.settings
    log = log_at(settings.delivery_log)
    store: object = setup.store
    if isinstance(store, AsksLog):
        store.ask(log)
    return (
        verdicts_route(
            setup.provider,
            composer(setup.sender),
            is_logged=log.has,
            plan=verdict_plan(settings.max_attempts),
            allow_replay=settings.allow_replay,
            sign=setup.sign,
        ),
    )


ASSEMBLY = Assembly(
    name=NAME,
    about="Verdict mails of paid sessions: four retries after the inline call, then a dead letter.",
    settings=VerdictSettings,
    routes=routes,
    prefixes=PREFIXES,
    environ=environ_with_file,
    defaults=defaults,
    layouts={NAME: LAYOUT},
    notices=notices,
    web=SERVICE,
    commands={"serve": serve, "webhook": webhook, "health": health, "replay": replay},
    checks=(files,),
)
