"""Random plans, failures and turns of fate: the same whether a seed or Hypothesis rolls."""

from __future__ import annotations

from random import Random
from typing import Literal, TypeAlias, TypeVar

from msgspec import Struct

from homing.domain.delivery import Delivery
from homing.domain.failure import RATE_LIMITED, TIMED_OUT, Disposition, Failure, Refusal
from homing.domain.policy import Exponential, FullJitter, Ladder, Plan, Retry, Schedule, Stage
from tests.unit.domain.lives import NOW_MS, addressed

T = TypeVar("T")

ADDRESSES = ("ann@example.org", "bob@example.org", "cat@example.org")
STAGE_NAMES = (("send",), ("send",), ("render", "send"), ("fetch", "think", "notify"))
SCHEDULES: tuple[Schedule, ...] = (
    Ladder((0.0, 60.0)),
    Exponential(1.0, max_s=60.0),
    FullJitter(Exponential(1.0)),
)

Owner: TypeAlias = Literal["works", "dies at once", "gives back"]
Evidence: TypeAlias = Literal["none", "found", "absent", "later", "hold"]
Outcome: TypeAlias = Literal["done", "fails", "dies late", "dies", "skips", "expires", "fans out"]
Verb: TypeAlias = Literal["replay", "restart", "dismiss", "restore", "confirm", "cancel", "amend"]

# Weighted by repetition: most workers live, and most attempts come to an answer.
OWNERS: tuple[Owner, ...] = ("works", "works", "works", "works", "dies at once", "gives back")
EVIDENCE: tuple[Evidence, ...] = ("none", "none", "none", "found", "absent", "later", "hold")
OUTCOMES: tuple[Outcome, ...] = (
    *("done", "fails", "done", "fails", "done", "fails"),
    *("dies late", "dies", "skips", "expires", "fans out"),
)
ON_PENDING: tuple[Verb | None, ...] = (*[None] * 10, "amend", "cancel")
ON_FAILED: tuple[Verb, ...] = ("replay", "replay", "confirm", "restart", "dismiss", "amend")
DISPOSITIONS: tuple[Disposition, ...] = ("retry", "retry", "retry", "reject", "route_fault")


class Turn(Struct, frozen=True):
    """What worker, provider, operator and disk do when it is their turn."""

    owner: Owner
    evidence: Evidence
    outcome: Outcome
    failure: Failure
    refused: dict[str, Refusal]
    roll: float
    on_pending: Verb | None
    on_failed: Verb
    finds_damage: bool


def any_turn(chance: Random) -> Turn:
    return Turn(
        owner=chance.choice(OWNERS),
        evidence=chance.choice(EVIDENCE),
        outcome=chance.choice(OUTCOMES),
        failure=any_failure(chance),
        refused=any_refusals(chance),
        roll=chance.random(),
        on_pending=chance.choice(ON_PENDING),
        on_failed=chance.choice(ON_FAILED),
        finds_damage=chance.randrange(30) == 0,
    )


def any_failure(chance: Random) -> Failure:
    return Failure(
        chance.choice(("deferred", RATE_LIMITED, TIMED_OUT)),
        chance.choice(DISPOSITIONS),
        retry_after_s=chance.choice((None, None, 0.0, 30.5, 1000.0)),
        maybe_sent=_coin(chance),
        refused=any_refusals(chance),
    )


def any_refusals(chance: Random) -> dict[str, Refusal]:
    return {
        address: Refusal(permanent=_coin(chance), code="450")
        for address in ADDRESSES
        if chance.randrange(3) == 0
    }


def any_plan(chance: Random) -> Plan:
    return Plan(
        stages=tuple(_any_stage(chance, name) for name in chance.choice(STAGE_NAMES)),
        on_route_fault=chance.choice(("pause", "fail", "retry")),
        inline_counts=_coin(chance),
        interrupted_counts=_coin(chance),
        max_crashes=chance.randint(1, 5),
        keep_delivered=_coin(chance),
        notify_on_failed=chance.choice((("alert",), ("alert", "line"))),
        notify_on_delivered=chance.choice(((), ("log",))),
    )


def any_delivery(chance: Random, plan: Plan) -> Delivery:
    return addressed(
        *ADDRESSES[: chance.randint(0, 3)],
        stage=plan.first_stage.name,
        parent_id=chance.choice((None, "parent")),
        expires_at_ms=chance.choice((None, NOW_MS + 10**6)),
    )


def _any_stage(chance: Random, name: str) -> Stage:
    return Stage(
        name=name,
        retry=Retry(chance.choice(SCHEDULES), max_attempts=chance.randint(1, 4)),
        sends=_coin(chance),
        quiet=_coin(chance),
    )


def _coin(chance: Random) -> bool:
    return chance.randrange(2) == 1
