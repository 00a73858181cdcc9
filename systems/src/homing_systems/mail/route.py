"""The route of mails: rendered if they have a template, then four attempts on a fixed ladder."""

from __future__ import annotations

from functools import partial

from msgspec import Struct

from homing import Route
from homing.content.senders import Senders
from homing.content.validation import envelope_of, validate_email
from homing.domain.message import Email
from homing.domain.policy import Ladder, Plan, Retention, Retry, Stage
from homing.plugins import Admitted, Label, LabelTable, SendStep, Sign
from homing.ports import Provider
from homing_systems.mail.login_codes import suppressed_in_stub_mode
from homing_systems.mail.rendering import RENDER, Render, RenderStep, composer

# `mail` is the route of `homing serve`.
NAME = "mail-service"
TEMPLATE = "template"
SEND = "send"
# The same sending, of what a template made: its first wait is shown as `rendered`.
SEND_RENDERED = "send_rendered"

DAY_S = 24 * 3600.0
RETRY = Retry(Ladder((60.0, 300.0, 1800.0)), max_attempts=4)
RETENTION = Retention(
    key_s=7 * DAY_S,
    delivered_s=30 * DAY_S,
    payload_s=30 * DAY_S,
    failed_payload_s=30 * DAY_S,
    failed_s=90 * DAY_S,
    attempts_s=90 * DAY_S,
)

LABELS = LabelTable(
    (
        Label("queued", "pending", stage=RENDER),
        Label("queued", "in_flight", stage=RENDER),
        Label("rendered", "pending", stage=SEND_RENDERED, attempted=False),
        Label("queued", "pending"),
        Label("sending", "in_flight"),
        Label("sent", "delivered"),
        Label("suppressed", "suppressed"),
        Label("failed", "failed", failed_because="rejected"),
        Label("dead_letter", "failed"),
    )
)


class MailRules(Struct, frozen=True, kw_only=True):
    """What the service's settings decide about mails."""

    sender: str
    allowed_senders: tuple[str, ...] = ()
    sign: Sign | None = None
    timeout_s: float = 15.0
    concurrency: int = 4
    retention: Retention = RETENTION
    stub_mode: bool = False


def mail_route(provider: Provider, render: Render, rules: MailRules) -> Route:
    senders = Senders(rules.sender, rules.allowed_senders)
    send = SendStep(provider, composer(senders), sender=senders.envelope_sender, sign=rules.sign)
    return Route(
        name=NAME,
        plan=_plan(rules, _sending(SEND, rules)),
        plans={TEMPLATE: _plan(rules, _rendering(rules), _sending(SEND_RENDERED, rules))},
        steps={RENDER: RenderStep(render), SEND: send, SEND_RENDERED: send},
        provider=provider,
        concurrency=rules.concurrency,
        needs_key=True,
        on_mismatch="conflict",
        admit=partial(admit_mail, senders=senders, stub_mode=rules.stub_mode),
        verbs=frozenset({"resend"}),
        labels=LABELS,
    )


def admit_mail(message: Email, *, senders: Senders, stub_mode: bool) -> Admitted:
    """A mail with a template is rendered before it is sent."""
    email = senders.checked(validate_email(message))
    return Admitted.of(
        email,
        recipients=envelope_of(email),
        plan="" if email.template_id is None else TEMPLATE,
        suppressed_because=suppressed_in_stub_mode(email) if stub_mode else None,
    )


def _rendering(rules: MailRules) -> Stage:
    return Stage(name=RENDER, retry=RETRY, timeout_s=rules.timeout_s, quiet=True)


def _sending(name: str, rules: MailRules) -> Stage:
    return Stage(name=name, retry=RETRY, timeout_s=rules.timeout_s, sends=True)


def _plan(rules: MailRules, *stages: Stage) -> Plan:
    return Plan(
        stages=stages,
        on_unknown="retry",
        on_route_fault="fail",
        interrupted_counts=True,
        retention=rules.retention,
    )
