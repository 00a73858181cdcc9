"""The route of reviews: fetch, llm, notify; then a row for each recipient with its own budget."""

from __future__ import annotations

from collections.abc import Callable

from homing import Route
from homing.domain.delivery import Content, Delivery
from homing.domain.policy import Exponential, FullJitter, Plan, Retention, Retry, RetryAfter, Stage
from homing.plugins import ALL_VERBS, Label, LabelTable, SendStep
from homing.ports import FanOut, Outcome, Provider, Step, Work
from homing_systems.reviews.classification import (
    POLICY_UNEXPECTED,
    RUNTIME_BUG,
    judge,
)
from homing_systems.reviews.job import (
    admit_review,
    recipient_intent,
    review_in,
)

NAME = "reviews"
FETCH, LLM, NOTIFY = "fetch", "llm", "notify"
# The stage of a recipient's own row, below `notify`; its queue and its plan have the same name.
RECIPIENT = "recipient"

RETRY = Retry(
    FullJitter(Exponential(initial_s=1.0, multiplier=2.0, max_s=60.0)),
    max_attempts=5,
    retry_after=RetryAfter(cap_s=300.0),
)
STAGE_TIMEOUT_S = 60.0
# By RFC 5321, 4.5.3.2, a mail server may take over half an hour for one message.
SEND_TIMEOUT_S = 2700.0

DEAD_LETTER, PAGE, ESCALATION = "dead_letter", "page", "escalation"

LABELS = LabelTable(
    (
        Label("unsent", "pending", stage=RECIPIENT),
        Label("unsent", "in_flight", stage=RECIPIENT),
        Label("sent", "delivered", stage=RECIPIENT),
        Label("failed", "failed", stage=RECIPIENT),
        Label("retryable_failed", "pending", attempted=True),
        Label("in_progress", "pending"),
        Label("in_progress", "in_flight"),
        Label("retryable_failed", "waiting", retrying_children=True),
        Label("in_progress", "waiting"),
        Label("succeeded", "delivered"),
        # Blocked until a person acts.
        Label("retryable_failed", "failed"),
        Label("resolved", "dismissed"),
    )
)


def reviews_route(
    provider: Provider,
    *,
    fetch: Step,
    llm: Step,
    write: Callable[[Content, str], bytes],
    retry: Retry = RETRY,
    not_idempotent: frozenset[str] = frozenset(),
) -> Route:
    """`write` makes the message for one address from the job and the results of its stages.

    `not_idempotent` names the stages that may not be repeated after a write conflict.
    """
    stages = tuple(
        Stage(
            name=name,
            retry=retry,
            timeout_s=STAGE_TIMEOUT_S,
            idempotent=name not in not_idempotent,
        )
        for name in (FETCH, LLM, NOTIFY)
    )
    sending = Stage(name=RECIPIENT, retry=retry, timeout_s=SEND_TIMEOUT_S, sends=True)
    return Route(
        name=NAME,
        plan=_plan(*stages),
        plans={RECIPIENT: _plan(sending)},
        steps={
            FETCH: fetch,
            LLM: llm,
            NOTIFY: NotifyStep(write),
            RECIPIENT: SendStep(provider, _as_written),
        },
        provider=provider,
        queues=("", RECIPIENT),
        needs_key=True,
        on_mismatch="return_existing",
        admit=admit_review,
        judge=judge,
        verbs=ALL_VERBS - {"resend", "cancel"},
        labels=LABELS,
    )


class NotifyStep:
    """A row for each recipient, before anything is sent; a repeated one is notified once."""

    def __init__(self, write: Callable[[Content, str], bytes]) -> None:
        self._write = write

    async def __call__(self, work: Work) -> Outcome:
        review = review_in(work.content)
        about = {
            "changelist_id": review.changelist_id,
            "review_version": str(review.review_version),
        }
        return FanOut(
            tuple(
                work.child(
                    queue=RECIPIENT,
                    stage=RECIPIENT,
                    payload=self._write(work.content, recipient.address),
                    intent=recipient_intent(review, recipient.address),
                    recipients=(recipient.address,),
                    required=recipient.required,
                    metadata=about,
                )
                for recipient in review.recipients
            )
        )


def _as_written(delivery: Delivery, content: Content) -> bytes:
    del delivery
    return content.payload


def _plan(*stages: Stage) -> Plan:
    return Plan(
        stages=stages,
        on_unknown="hold",
        on_route_fault="fail",
        notify_on_failed=(DEAD_LETTER,),
        notify_by_class={RUNTIME_BUG: (PAGE,), POLICY_UNEXPECTED: (ESCALATION,)},
        notify_on_repeat=(ESCALATION,),
        retention=Retention.forever(),
    )
