"""Verdict mails as one value: their settings, route, files, web table and programs."""

from __future__ import annotations

from homing import Route
from homing.plugins import Plugin, Setup
from homing.ports import AsksLog
from homing_systems.verdicts.delivery_log import log_at
from homing_systems.verdicts.mail import composer
from homing_systems.verdicts.notices import notices
from homing_systems.verdicts.presence import files
from homing_systems.verdicts.programs import health, replay, serve, webhook
from homing_systems.verdicts.record import LAYOUT
from homing_systems.verdicts.route import NAME, verdict_plan, verdicts_route
from homing_systems.verdicts.settings import (
    PREFIXES,
    VerdictSettings,
    defaults,
    environ_with_file,
)
from homing_systems.verdicts.web import SERVICE


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


PLUGIN = Plugin(
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
