"""A Route: the one frozen value in which two uses of the engine differ."""

from __future__ import annotations

import functools
import traceback
from collections.abc import Callable, Mapping
from typing import Any, Literal, TypeAlias, get_args

from msgspec import Struct, field

from homing.domain.delivery import Delivery
from homing.domain.errors import TerminalError
from homing.domain.failure import TIMED_OUT, Disposition, Failure
from homing.domain.policy import Plan, Stage
from homing.domain.redaction import redact, redact_trace
from homing.engine.labels import ENGINE_LABELS, LabelTable
from homing.ports import Lookup, Provider, Step

Verb: TypeAlias = Literal[
    "replay",
    "restart",
    "resend",
    "dismiss",
    "restore",
    "cancel",
    "confirm",
    "amend",
    "annotate",
]
ALL_VERBS: frozenset[Verb] = frozenset(get_args(Verb))

# After the step's own time: room to gather, to write the mark and to write the outcome.
LEASE_MARGIN_S = 30.0
MAX_FRAMES = 20
DEFAULT_CONCURRENCY = 64


def classify_exception(error: Exception) -> Failure:
    """The default verdict on a surprise: try again, unless the step said that it is useless."""
    disposition: Disposition = "reject" if isinstance(error, TerminalError) else "retry"
    word = TIMED_OUT if isinstance(error, TimeoutError) else type(error).__name__
    return Failure(
        word,
        disposition,
        detail=redact(f"{type(error).__name__}: {error}"),
        trace=redact_trace(_trace(error)),
    )


def _trace(error: BaseException) -> str:
    """Files, lines and names, the innermost last, with the chain of causes.

    The library's own formatting reads and parses the sources: milliseconds for every failure.
    """
    lines: list[str] = []
    links: BaseException | None = error
    while links is not None and len(lines) < MAX_FRAMES:
        frames = list(traceback.walk_tb(links.__traceback__))[-MAX_FRAMES:]
        place = [f"  {f.f_code.co_filename}:{line} in {f.f_code.co_name}" for f, line in frames]
        lines = [*place, f"{type(links).__name__}: {links}", *lines]
        links = links.__cause__
    return "\n".join(lines)


class Route(Struct, frozen=True, kw_only=True, dict=True):
    """How one kind of delivery is taken in, tried, shown and repaired.

    `plans` overrides the plan for single lanes (a handler with a policy of its own). `intent`
    gives the business key that may exist only once; `normalise` is applied before the
    fingerprint, so that harmless spelling differences are no conflict. `suppress` gives a
    reason to skip a message on purpose at intake. With a `concurrency` of 0 it is taken in here
    and worked off elsewhere. `classify` judges exceptions, `judge` every
    failure, also those that a step returned.
    """

    name: str
    plan: Plan
    steps: Mapping[str, Step]
    provider: Provider | None = None
    lanes: tuple[str, ...] = ()
    plans: Mapping[str, Plan] = field(default_factory=dict)
    concurrency: int = DEFAULT_CONCURRENCY
    poll_s: float = 30.0
    probe_every_s: float = 30.0
    on_mismatch: Literal["conflict", "return_existing"] = "conflict"
    claim_on_accept: bool = False
    guards: tuple[Callable[[Any], None], ...] = ()
    normalise: Callable[[Any], Any] | None = None
    intent: Callable[[Any], str | None] | None = None
    recipients_of: Callable[[Any], tuple[str, ...]] | None = None
    lane_of: Callable[[Any, int], str] | None = None
    relane: Callable[[Delivery, int], str] | None = None
    needs_key: bool = False
    suppress: Callable[[Any], str | None] | None = None
    classify: Callable[[Exception], Failure] = classify_exception
    judge: Callable[[Failure, Stage], Failure] | None = None
    verbs: frozenset[Verb] = ALL_VERBS
    labels: LabelTable = ENGINE_LABELS

    def plan_of(self, delivery: Delivery) -> Plan:
        return self.plan_in(delivery.lane)

    def plan_in(self, lane: str) -> Plan:
        return self.plans.get(lane, self.plan) if self.plans else self.plan

    @property
    def served_lanes(self) -> tuple[str, ...]:
        return self.lanes or (self.name,)

    @functools.cached_property
    def lease_s(self) -> float:
        plans = (self.plan, *self.plans.values())
        return max(s.timeout_s for plan in plans for s in plan.stages) + LEASE_MARGIN_S

    @functools.cached_property
    def lookup(self) -> Lookup | None:
        """The provider, if it can tell what it has accepted."""
        provider: object = self.provider
        return provider if isinstance(provider, Lookup) else None

    def word(self, delivery: Delivery) -> str:
        return self.labels.word(delivery)
