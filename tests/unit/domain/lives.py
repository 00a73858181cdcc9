"""Deliveries at every point of their life, brought there by the transitions themselves."""

from __future__ import annotations

from typing import Any

from homing.domain import transitions
from homing.domain.delivery import Delivery, Recipient
from homing.domain.failure import Failure
from homing.domain.policy import Ladder, Plan, Retry, Stage
from homing.testing import samples

NOW_MS = samples.NOW_MS
LEASE_MS = samples.LEASE_MS
MINUTE_MS = 60_000

SOFT = Failure("deferred", code="451", detail="try again later")
HARD = Failure("mailbox_unknown", "reject", code="550", detail="no such mailbox")
LOST = Failure("answer_lost", detail="cut after the message", maybe_sent=True)
FAULT = Failure("auth_failed", "route_fault", code="535", detail="bad credentials")
SKIPPED = Failure("suppressed", "suppress", detail="on the list")


def stage(name: str = "send", *, attempts: int = 3, **fields: Any) -> Stage:
    """A stage with a budget of `attempts`, a minute apart."""
    return Stage(name=name, retry=Retry(Ladder((60.0,)), max_attempts=attempts), **fields)


def plan(*stages: Stage, **rules: Any) -> Plan:
    """A plan of these stages, or of a single one that sends."""
    return Plan(stages=stages or (stage(sends=True),), **rules)


SEND = plan()
STAGED = plan(stage("render", quiet=True), stage("send", sends=True))


def pending(**fields: Any) -> Delivery:
    return samples.delivery("d1", **fields)


def addressed(*addresses: str, **fields: Any) -> Delivery:
    return pending(recipients=tuple(Recipient(address) for address in addresses), **fields)


def claimed(before: Delivery | None = None, *, by: str = "w1", at_ms: int = NOW_MS) -> Delivery:
    """In the hands of a worker."""
    return transitions.claim(
        before or pending(), holder=by, now_ms=at_ms, lease_until_ms=at_ms + LEASE_MS
    ).delivery


def marked(before: Delivery | None = None, *, at_ms: int = NOW_MS) -> Delivery:
    """Claimed, with the durable mark written: from here on a crash leaves doubt."""
    return transitions.mark_committing(
        before or claimed(), now_ms=at_ms, lease_until_ms=at_ms + LEASE_MS, frozen={}
    ).delivery


def after_failure(
    before: Delivery | None = None, failure: Failure = SOFT, *, by_plan: Plan = SEND
) -> Delivery:
    """An attempt of this delivery failed."""
    return transitions.fail(
        before or claimed(), failure, plan=by_plan, now_ms=NOW_MS, roll=0.0
    ).delivery


def failed(failure: Failure = HARD) -> Delivery:
    """A dead letter: rejected, or uncertain if the failure leaves doubt."""
    return after_failure(failure=failure, by_plan=plan(stage(attempts=1)))


def waiting(**fields: Any) -> Delivery:
    return transitions.fan_out(
        claimed(pending(**fields)), (samples.child("c1", "d1"),), now_ms=NOW_MS
    ).delivery


def delivered(**fields: Any) -> Delivery:
    return transitions.succeed(
        claimed(pending(**fields)), plan=SEND, now_ms=NOW_MS, roll=0.0
    ).delivery


def suppressed() -> Delivery:
    return transitions.suppress(claimed(), SKIPPED, plan=SEND, now_ms=NOW_MS).delivery


def dismissed() -> Delivery:
    return transitions.dismiss(failed(), now_ms=NOW_MS).delivery


def cancelled(**fields: Any) -> Delivery:
    return transitions.cancel(pending(**fields), plan=SEND, now_ms=NOW_MS).delivery
