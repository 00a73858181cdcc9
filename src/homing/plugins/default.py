"""The mail service of `homing serve`: one route, `mail`, over the provider of the settings."""

from __future__ import annotations

import traceback
from typing import TYPE_CHECKING

from msgspec.structs import replace

from homing.domain.errors import InvalidRequest, SettingsError
from homing.domain.failure import Failure
from homing.domain.policy import Stage
from homing.engine.route import Route, classify_exception
from homing.plugins.value import NoSettings, Plugin, Service, Setup
from homing.ports import Finding
from homing.runtime.mail_route import mail_route
from homing.settings.tree import LimitSettings

if TYPE_CHECKING:
    from homing.content.limits import Limits


def routes(setup: Setup[NoSettings]) -> tuple[Route, ...]:
    """The mail route with the templates and limits that are set."""
    general, provider = setup.general, setup.provider
    if setup.working and general.sender is None and not setup.sends_nowhere:
        raise SettingsError("sender", "is required: the address that mail comes from")
    try:
        route = mail_route(
            provider,
            sender=general.sender,
            allowed_senders=general.allowed_senders,
            catalog=general.templates,
            limits=_limits(general.limits),
            dkim=setup.dkim,
        )
    except InvalidRequest as error:
        raise SettingsError(error.field, error.problem) from None
    return (replace(route, judge=judge_discreetly),)


async def templates(service: Service[NoSettings]) -> list[Finding]:
    """A check for `doctor`: how many templates there are."""
    from homing.content.templates import Catalog

    folder = service.general.templates
    if folder is None:
        return []
    number = len(Catalog.load(folder).locales())
    detail = f"{number} template(s) in {folder}"
    return [Finding("templates", "good" if number else "warning", detail)]


def judge_discreetly(problem: Exception | Failure, stage: Stage) -> Failure:
    """An unexpected error in a step: only its type and place, as its text may quote the mail."""
    del stage
    if isinstance(problem, Failure):
        return problem
    frames = traceback.extract_tb(problem.__traceback__, limit=-1)
    place = "".join(f" in {frame.name}, line {frame.lineno}" for frame in frames)
    detail = f"{type(problem).__name__}{place}"
    return replace(classify_exception(problem), detail=detail, trace=None)


def _limits(given: LimitSettings) -> Limits:
    from homing.content.limits import Limits

    return Limits(
        recipients=given.recipients,
        body_bytes=given.body_bytes,
        attachments_bytes=given.attachments_bytes,
    )


PLUGIN = Plugin(
    name="default",
    about="The mail service of `homing serve`.",
    settings=NoSettings,
    routes=routes,
    checks=(templates,),
)
