"""The route of booking mails: tried inline, then five times by the worker, whatever the answer."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from homing import Failure, Route
from homing.domain.policy import Exponential, Plan, Retention, Retry, Stage
from homing.plugins import EmailComposer, Label, LabelTable, SendStep, Sign, judge_as_is
from homing.ports import Provider
from homing.stores.layout import HIDDEN

NAME = "bookings"
SEND = "send"
FIRST_DELAY_S = 30.0
MAX_ATTEMPTS = 5
SEND_TIMEOUT_S = 30.0
POLL_S = 30.0

LABELS = LabelTable(
    (
        Label(HIDDEN, "in_flight", phase="inline"),
        Label(HIDDEN, "dismissed"),
        Label("pending", "pending"),
        Label("pending", "in_flight"),
        Label("failed", "failed"),
    )
)

PLAN = Plan(
    stages=(
        Stage(
            name=SEND,
            retry=Retry(Exponential(initial_s=FIRST_DELAY_S, first=1), MAX_ATTEMPTS),
            timeout_s=SEND_TIMEOUT_S,
            sends=True,
        ),
    ),
    on_unknown="retry",
    on_route_fault="retry",
    inline_counts=False,
    keep_delivered=False,
    notify_on_failed=(),
    retention=replace(Retention.forever(), dismissed_s=0.0),
)


def bookings_route(
    provider: Provider,
    *,
    sender: str,
    allowed_senders: Sequence[str] = (),
    sign: Sign | None = None,
) -> Route:
    """The mail is complete at intake: nothing of it is looked up or rendered later."""
    # `email_outbox` has a column for the one whom a mail is for.
    emails = EmailComposer(sender, allowed_senders=allowed_senders, needs_to=True)
    return Route(
        name=NAME,
        plan=PLAN,
        steps={SEND: SendStep(provider, emails.freeze, sender=emails.envelope_sender, sign=sign)},
        provider=provider,
        poll_s=POLL_S,
        admit=emails.admit,
        judge=judge,
        verbs=frozenset({"replay", "dismiss"}),
        labels=LABELS,
    )


def judge(problem: Exception | Failure, stage: Stage) -> Failure:
    """No refusal is permanent here: every answer of a mail server is tried again."""
    return replace(judge_as_is(problem, stage), disposition="retry")
