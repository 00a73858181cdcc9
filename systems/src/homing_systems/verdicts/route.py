"""The route of verdict mails: the ladder, the guards, and the notices due at the end."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from homing import Route
from homing.domain.delivery import Content, Delivery, Receipt
from homing.domain.errors import SettingsError
from homing.domain.policy import Ladder, Plan, Retention, Retry, RetryAfter, Stage
from homing.plugins import Label, LabelTable, SendStep, Verb
from homing.ports import Done, Outcome, Provider, Work
from homing_systems.verdicts.graph_answers import judge
from homing_systems.verdicts.verdict import admit_verdict

NAME = "verdicts"
SEND = "send"

# The first retry follows at once; its millisecond keeps the due time after the creation.
LADDER_S = (0.001, 300.0, 1800.0, 7200.0)
DEFAULT_MAX_ATTEMPTS = 4
RATE_LIMIT_MIN_S = 60.0
SEND_TIMEOUT_S = 30.0
POLL_S = 60.0

DEAD_LETTER = "dead_letter"
ALERT = "alert"
TOKEN_ALERT = "token_alert"  # noqa: S105 - the name of a notice
DELIVERY_LOG = "delivery_log"
TOKEN_REVOKED = "token_revoked"  # noqa: S105 - a class of failure

DUPLICATE_NOTICE = "A fault interrupted an earlier delivery of this mail: you may have it already."

LABELS = LabelTable(
    (
        Label("PENDING", "pending", attempted=False),
        Label("PENDING", "in_flight", phase="inline"),
        Label("RETRYING", "pending"),
        Label("RETRYING", "in_flight"),
        Label("DELIVERED", "delivered"),
        Label("DEAD", "failed"),
    )
)


def verdict_plan(max_attempts: int = DEFAULT_MAX_ATTEMPTS, *, inline_counts: bool = False) -> Plan:
    """More attempts than the ladder has steps repeat the last step; fewer cut it short."""
    if max_attempts < 1:
        raise SettingsError("EMAIL_RETRY_MAX_ATTEMPTS", "must be a whole number above 0")
    retry = Retry(Ladder(LADDER_S, first=1), max_attempts, RetryAfter(min_s=RATE_LIMIT_MIN_S))
    return Plan(
        stages=(Stage(name=SEND, retry=retry, timeout_s=SEND_TIMEOUT_S, sends=True),),
        on_unknown="retry",
        on_route_fault="fail",
        inline_counts=inline_counts,
        inline_retries_at_once=True,
        interrupted_counts=True,
        notify_on_failed=(DEAD_LETTER, ALERT),
        notify_by_class={TOKEN_REVOKED: (TOKEN_ALERT,)},
        notify_on_delivered=(DELIVERY_LOG,),
        retention=Retention.forever(),
    )


def verdicts_route(
    provider: Provider,
    compose: Callable[[Delivery, Content], bytes],
    *,
    is_logged: Callable[[str], Awaitable[bool]],
    plan: Plan | None = None,
    allow_replay: bool = False,
    sign: Callable[[bytes], bytes] | None = None,
) -> Route:
    """`compose` makes the mail from the stored verdict, with DUPLICATE_NOTICE in its text and
    HTML where `delivery.maybe_duplicate` is set. `is_logged` asks the delivery log for a session
    before each send."""
    send = SendStep(
        provider,
        compose,
        compose_duplicate=compose,
        unless=already_logged(is_logged),
        sign=sign,
    )
    verbs: frozenset[Verb] = frozenset({"replay"}) if allow_replay else frozenset()
    return Route(
        name=NAME,
        plan=plan or verdict_plan(),
        steps={SEND: send},
        provider=provider,
        poll_s=POLL_S,
        needs_key=True,
        on_mismatch="return_existing",
        admit=admit_verdict,
        judge=judge,
        verbs=verbs,
        labels=LABELS,
    )


def already_logged(
    is_logged: Callable[[str], Awaitable[bool]],
) -> Callable[[Work], Awaitable[Outcome | None]]:
    """The second guard against a double mail: a session in the delivery log is not sent again."""

    async def ask(work: Work) -> Outcome | None:
        if await is_logged(work.delivery.key or ""):
            return Done(receipt=Receipt(evidence="lookup", detail="in the delivery log"))
        return None

    return ask
