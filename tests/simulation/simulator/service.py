"""A mail service with a ledger of its own: what it really accepted, whatever anybody heard of it.

A commit travels to the service, has its effect there, and its answer travels back; the effect
happens also when the sender was killed in between. The ledger is the first of the two oracles.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Literal, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from homing.domain.delivery import Receipt
from homing.domain.failure import (
    RATE_LIMITED,
    RECIPIENT_DEFERRED,
    RECIPIENT_REFUSED,
    Failure,
    Refusal,
)
from homing.ports import Absent, Accepted, Envelope, Found, Unknown
from tests.simulation.simulator.options import Options
from tests.simulation.simulator.route_kinds import TIMEOUT_S, RouteKind
from tests.simulation.virtualtime import VirtualTimeLoop

Reaction: TypeAlias = Literal[
    "accept", "deferred", "retry_after", "retry_after_absurd", "rejected", "suppressed", "partial",
    "cut_after", "cut_before", "hung",
]  # fmt: skip
# What a provider's own code may do wrong, whatever the service does.
ProviderFault: TypeAlias = Literal[
    "prepare_raised", "prepare_garbage", "start_raised", "answer_none", "answer_garbage"
]
Answer: TypeAlias = Accepted | Failure

SETTLE_S = 20.0
ABSURD_S = (9e8, 1e11, -7.0)
NO_ADDRESS = ("",)
# Who has this in the address is put off as long as there are faults: the budget runs out.
ALWAYS_DEFERRED = "always_deferred"
HANG_S = TIMEOUT_S * 3

_LOST = Failure("connection_lost", detail="cut after the message", maybe_sent=True)
_FAULT = Failure("auth_failed", "route_fault", code="535", detail="bad credentials")


class Acceptance(Struct):
    """One line of the ledger."""

    recipients: tuple[str, ...]
    at_s: float
    by: str
    is_zombie: bool


class Known(Struct):
    """What the service knows about a token."""

    under_way: int = 0
    last_at_s: float = 0.0
    accepted_at_s: float = 0.0
    visible_at_s: float = 0.0
    receipt: Receipt | None = None
    asked_at_s: float | None = None


class Service:
    """One service, used by all processes."""

    def __init__(
        self,
        route_kind: RouteKind,
        options: Options,
        rng: random.Random,
        loop: VirtualTimeLoop,
        fault: Callable[[str], None],
    ) -> None:
        self.route_kind = route_kind
        self.rng = rng
        self.loop = loop
        self.fault = fault
        self.options = options
        self.faults_on = True
        self.has_bad_credentials = False
        self.ledger: dict[str, list[Acceptance]] = {}
        self._tokens: dict[str, Known] = {}
        self._numbers = 0
        self._reactions = _reactions(options, route_kind)

    def reaction(self) -> Reaction:
        if not self.faults_on:
            return "accept"
        draw = self.rng.random()
        for share, reaction in self._reactions:
            if draw < share:
                self.fault(reaction)
                return reaction
            draw -= share
        return "accept"

    def breaks(self, fault: ProviderFault) -> bool:
        """Whether the code between engine and service does this wrong thing now."""
        share: float = getattr(self.options, fault)
        if not self.faults_on or not share or self.rng.random() >= share:
            return False
        self.fault(fault)
        return True

    def delay_s(self) -> float:
        if not self.faults_on or self.rng.random() >= self.options.answer_share:
            return 0.0
        return self.rng.random() * self.options.answer_s

    def known(self, token: str) -> Known:
        return self._tokens.setdefault(token, Known())

    def arrive(
        self, envelope: Envelope, reaction: Reaction, by: str, *, zombie: bool
    ) -> Answer | None:
        """The message is at the service: what it does, and what it would answer."""
        known = self.known(envelope.token)
        known.last_at_s = self.loop.time()
        declined = self._declined(envelope, reaction)
        if declined is not None:
            return declined
        if reaction == "hung" and self.rng.random() < 0.5:
            return None
        refused = self._refused(envelope) if reaction in ("partial", "cut_after") else {}
        taken = tuple(r for r in envelope.recipients or NO_ADDRESS if r not in refused)
        if not taken:
            return _all_refused(refused)
        receipt = self._accept(envelope, taken, by, zombie=zombie)
        if reaction == "cut_after":
            return replace(_LOST, refused=refused)
        return None if reaction == "hung" else Accepted(receipt, refused)

    def _declined(self, envelope: Envelope, reaction: Reaction) -> Failure | None:
        """Not taken at all; or not taken and no word of it, which the sender cannot know."""
        if self.has_bad_credentials:
            return _FAULT
        if self.faults_on and any(ALWAYS_DEFERRED in address for address in envelope.recipients):
            return _DECLINED["deferred"]
        if reaction in ("retry_after", "retry_after_absurd"):
            seconds = self.rng.uniform(1.0, 20.0)
            if reaction == "retry_after_absurd":
                seconds = self.rng.choice(ABSURD_S)
            return Failure(RATE_LIMITED, code="429", retry_after_s=seconds)
        return _DECLINED.get(reaction)

    def _accept(
        self, envelope: Envelope, taken: tuple[str, ...], by: str, *, zombie: bool
    ) -> Receipt:
        now_s = self.loop.time()
        known = self.known(envelope.token)
        window_s = self.route_kind.token_window_s
        if known.receipt is not None and now_s < known.accepted_at_s + window_s:
            return known.receipt  # folded: it is the same message to the service
        self._numbers += 1
        known.receipt = Receipt(f"n{self._numbers}")
        known.accepted_at_s = now_s
        known.visible_at_s = now_s + self.rng.random() * SETTLE_S
        entry = Acceptance(taken, now_s, by, zombie)
        self.ledger.setdefault(envelope.delivery_id, []).append(entry)
        return known.receipt

    def look(self, token: str) -> Found | Absent | Unknown:
        """Three-valued, and late: what was accepted is seen only after a while."""
        now_s = self.loop.time()
        known = self.known(token)
        if known.asked_at_s is None:
            known.asked_at_s = now_s
        if known.receipt is not None and now_s >= known.visible_at_s:
            return Found(known.receipt)
        settled = now_s >= max(known.last_at_s, known.asked_at_s) + SETTLE_S
        if settled and not known.under_way:
            return Absent()
        return Unknown(ask_again_s=6.0)

    def _refused(self, envelope: Envelope) -> dict[str, Refusal]:
        if not self.route_kind.answers_apart or not self.options.partial:
            return {}
        roll = self.rng.random
        return {
            address: Refusal(permanent=roll() < 0.4, code="550")
            for address in envelope.recipients
            if roll() < 0.4
        }


_DECLINED: dict[str, Failure] = {
    "cut_before": _LOST,
    "deferred": Failure("deferred", code="451"),
    "rejected": Failure("content_refused", "reject", code="554"),
    "suppressed": Failure("suppressed", "suppress"),
}


def _all_refused(refused: dict[str, Refusal]) -> Failure:
    if all(refusal.permanent for refusal in refused.values()):
        return Failure(RECIPIENT_REFUSED, "reject", code="550", refused=refused)
    return Failure(RECIPIENT_DEFERRED, code="450", refused=refused)


def _reactions(options: Options, route_kind: RouteKind) -> list[tuple[float, Reaction]]:
    shares: list[tuple[float, Reaction]] = [
        (options.deferred, "deferred"),
        (options.retry_after, "retry_after"),
        (options.retry_after_absurd, "retry_after_absurd"),
        (options.rejected, "rejected"),
        (options.suppressed, "suppressed"),
        (options.partial if route_kind.answers_apart else 0.0, "partial"),
        (options.cut_after, "cut_after"),
        (options.cut_before, "cut_before"),
        (options.hung, "hung"),
    ]
    return [(share, reaction) for share, reaction in shares if share]
