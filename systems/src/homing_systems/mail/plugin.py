"""The mail service as one value: its settings, and its route made from them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from msgspec import Struct

from homing import Route
from homing.domain.failure import Failure
from homing.domain.policy import Retention
from homing.plugins import Plugin, Seconds, Setup, env
from homing_systems.mail.login_codes import TEMPLATE as LOGIN_CODE
from homing_systems.mail.record import LAYOUT
from homing_systems.mail.rendering import Render
from homing_systems.mail.route import DAY_S, NAME, MailRules, mail_route


class MailSettings(Struct, frozen=True, kw_only=True):
    template_dir: Annotated[
        str, env("MAIL_TEMPLATE_DIR", "The folder of templates, read once at the start.")
    ] = "templates"
    timeout: Annotated[Seconds, env("MAIL_SMTP_TIMEOUT", "How long one attempt may take.")] = (
        Seconds(15.0)
    )
    concurrency: Annotated[
        int,
        env("MAIL_ATTEMPT_WORKER_CONCURRENCY", "How many attempts run at a time.", ge=1, le=1024),
    ] = 4
    key_ttl: Annotated[
        Seconds, env("MAIL_IDEMPOTENCY_TTL", "How long a key is kept after its mail has ended.")
    ] = Seconds(7 * DAY_S)
    delivery_ttl: Annotated[
        Seconds, env("MAIL_DELIVERY_TTL", "How long a mail is kept after it has ended.")
    ] = Seconds(30 * DAY_S)
    attempt_ttl: Annotated[
        Seconds, env("MAIL_ATTEMPT_TTL", "How long attempts and dead letters are kept.")
    ] = Seconds(90 * DAY_S)


def routes(setup: Setup[MailSettings]) -> tuple[Route, ...]:
    settings, general = setup.settings, setup.general
    rules = MailRules(
        sender=setup.sender,
        allowed_senders=general.allowed_senders,
        sign=setup.sign,
        timeout_s=settings.timeout.value,
        concurrency=settings.concurrency,
        retention=retention(settings),
        stub_mode=setup.sends_nowhere,
    )
    return (mail_route(setup.provider, _render(setup), rules),)


def retention(settings: MailSettings) -> Retention:
    delivery_s, attempt_s = settings.delivery_ttl.value, settings.attempt_ttl.value
    return Retention(
        key_s=settings.key_ttl.value,
        delivered_s=delivery_s,
        payload_s=delivery_s,
        failed_payload_s=delivery_s,
        failed_s=attempt_s,
        attempts_s=attempt_s,
    )


def _render(setup: Setup[MailSettings]) -> Render:
    if not setup.working:
        return _render_nothing
    # Late: templates need the extra `mail`, which commands that only read work without.
    from homing.content.templates import Catalog  # noqa: PLC0415 - as above

    folder = setup.settings.template_dir
    return Catalog.load(folder, required=[LOGIN_CODE], setting="MAIL_TEMPLATE_DIR").render


def _render_nothing(template_id: str, locale: str | None, variables: Mapping[str, Any]) -> Failure:
    del template_id, locale, variables
    return Failure("template_not_found", "reject", detail="no templates are loaded")


PLUGIN = Plugin(
    name="mail",
    about="An internal mail service: templates, four attempts, resend by clone.",
    settings=MailSettings,
    routes=routes,
    prefixes=("MAIL_",),
    layouts={NAME: LAYOUT},
)
