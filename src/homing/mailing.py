"""The route for e-mails: which plan they live by, and how their bytes are frozen."""

from __future__ import annotations

from homing.domain.delivery import Content, Delivery
from homing.domain.policy import Ladder, Plan, Retry, Stage
from homing.engine.route import Route
from homing.engine.steps import SendStep
from homing.ports import Provider

MAIL_ROUTE = "mail"
SEND = "send"
SEND_RETRY = Retry(Ladder((60.0, 300.0, 1800.0, 7200.0, 21600.0, 43200.0)), max_attempts=7)


def mail_route(provider: Provider, *, sender: str | None = None) -> Route:
    plan = Plan(stages=(Stage(name=SEND, retry=SEND_RETRY, sends=True, timeout_s=60.0),))
    step = SendStep(provider, freeze, sender=sender)
    return Route(name=MAIL_ROUTE, plan=plan, steps={SEND: step}, provider=provider)


def freeze(delivery: Delivery, content: Content) -> bytes:
    """The bytes that every attempt sends."""
    del delivery
    return content.payload
