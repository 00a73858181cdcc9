"""A Route: the one frozen value in which two uses of the engine differ."""

from __future__ import annotations

import functools
import traceback
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal

from msgspec import Struct, field
from msgspec.structs import asdict, replace

from homing.domain.delivery import Delivery
from homing.domain.errors import SettingsError, TerminalError
from homing.domain.failure import TIMED_OUT, Disposition, Failure
from homing.domain.policy import Plan, Retention, Stage
from homing.domain.redaction import redact, redact_trace
from homing.engine.expiry import PURGED_BY_ROUTE
from homing.engine.intake.admitted import Admitted
from homing.engine.ops.labels import ENGINE_LABELS, LabelTable
from homing.engine.ops.verbs import ALL_VERBS, Verb
from homing.engine.queues import queue_in_generation, queue_name
from homing.engine.work.steps import SendStep
from homing.ports import LimitedProvider, Lookup, PermittedLookup, Provider, Step

# Beyond the step's own time: to collect a batch, to write the mark and to write the outcome.
LEASE_MARGIN_S = 30.0
MAX_FRAMES = 20
DEFAULT_CONCURRENCY = 64


def classify_exception(error: Exception) -> Failure:
    """The default for an unexpected error: try again, unless the step raised TerminalError."""
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


def judge_as_is(problem: Exception | Failure, stage: Stage) -> Failure:
    """A failure that a step returned is unchanged; an exception is classified by its type."""
    del stage
    return classify_exception(problem) if isinstance(problem, Exception) else problem


class Route(Struct, frozen=True, kw_only=True, dict=True):
    """How one kind of delivery is accepted, tried, shown and repaired.

    `admit` turns a message into what is stored, or refuses it with `InvalidRequest` or `Refused`;
    the default stores any message unchanged. `judge` classifies what went wrong in a stage: it gets
    the exception that a step raised or the failure that it returned.

    `plans` holds further plans by name. A delivery follows the one that `admit` named, else the
    one named like the suffix of its queue, else `plan`. `queues` are the suffixes of the queues
    that this process serves; the empty one is the route's name itself. `generation` is that of this
    process's code, for routes whose deliveries may ask for one. With a `concurrency` of 0,
    deliveries are accepted here and tried by other processes. More dead letters of a week than
    `most_failed_a_week` raise an alert.
    """

    name: str
    plan: Plan
    steps: Mapping[str, Step | SendStep]
    provider: Provider | None = None
    plans: Mapping[str, Plan] = field(default_factory=dict)
    queues: tuple[str, ...] = ("",)
    generation: int | None = None
    concurrency: int = DEFAULT_CONCURRENCY
    poll_s: float = 30.0
    probe_every_s: float = 30.0
    needs_key: bool = False
    on_mismatch: Literal["conflict", "return_existing"] = "conflict"
    admit: Callable[[Any], Admitted] = Admitted.of
    judge: Callable[[Exception | Failure, Stage], Failure] = judge_as_is
    verbs: frozenset[Verb] = ALL_VERBS
    labels: LabelTable = ENGINE_LABELS
    most_failed_a_week: int | None = None

    def plan_of(self, delivery: Delivery) -> Plan:
        """The plan that this delivery follows."""
        if not self.plans:
            return self.plan
        if delivery.plan:
            return self.plans.get(delivery.plan, self.plan)
        queue = queue_in_generation(delivery, 0) if delivery.generation else delivery.queue
        return self._plans_by_queue.get(queue, self.plan)

    def budget_of(self, delivery: Delivery) -> int:
        """How many counted attempts the delivery has in its stage and cycle."""
        if delivery.max_attempts is not None:
            return delivery.max_attempts
        return self.plan_of(delivery).stage(delivery.stage).retry.max_attempts

    def plan_for(self, admitted: Admitted) -> Plan:
        """The plan of a message that is being accepted."""
        return self.plans.get(admitted.plan or admitted.queue, self.plan)

    @property
    def all_plans(self) -> tuple[Plan, ...]:
        """`plan` and the further plans."""
        return (self.plan, *self.plans.values())

    def with_plans(self, change: Callable[[Plan], Plan]) -> Route:
        """The same route with each of its plans changed."""
        plans = {name: change(plan) for name, plan in self.plans.items()}
        return replace(self, plan=change(self.plan), plans=plans)

    def keeping(self, retention: Retention) -> Route:
        """The same route, whose records are kept for these times."""
        return self.with_plans(lambda plan: replace(plan, retention=retention))

    def queue(self, suffix: str = "", generation: int = 0) -> str:
        """The full name of a queue of this route."""
        return queue_name(self.name, suffix, 0 if self.generation is None else generation)

    @functools.cached_property
    def served_queues(self) -> tuple[str, ...]:
        generations = dict.fromkeys((0, self.generation or 0))
        return tuple(self.queue(suffix, number) for suffix in self.queues for number in generations)

    @functools.cached_property
    def _plans_by_queue(self) -> dict[str, Plan]:
        return {self.queue(name): plan for name, plan in self.plans.items()}

    @functools.cached_property
    def lease_s(self) -> float:
        return max(s.timeout_s for plan in self.all_plans for s in plan.stages) + LEASE_MARGIN_S

    @functools.cached_property
    def most_at_once(self) -> int:
        """`concurrency`, or less if the provider can make fewer sends at once."""
        provider: object = self.provider
        if isinstance(provider, LimitedProvider):
            return min(self.concurrency, provider.most_at_once)
        return self.concurrency

    @property
    def lookup(self) -> Lookup | None:
        """The provider, if it can look up what it has accepted."""
        looking = self._looking
        if isinstance(looking, PermittedLookup) and not looking.may_look_up:
            return None
        return looking

    @functools.cached_property
    def _looking(self) -> Lookup | None:
        provider: object = self.provider
        return provider if isinstance(provider, Lookup) else None

    def word(self, delivery: Delivery) -> str:
        """The route's own status word for this delivery."""
        return self.labels.word(delivery)


def routes_by_name(routes: Iterable[Route]) -> dict[str, Route]:
    """The routes by name; refuses two routes that would work on the same deliveries."""
    named: dict[str, Route] = {}
    owners: dict[str, Route] = {}
    for route in routes:
        _check_steps(route)
        _check_retention(route)
        for queue in route.served_queues:
            other = owners.setdefault(queue, route)
            if other is not route:
                raise _overlap(queue, other, route)
        if route.name in named:
            raise _overlap(route.queue(), named[route.name], route)
        named[route.name] = route
    return named


def _check_steps(route: Route) -> None:
    """A stage that sends has a SendStep, and no other stage has one."""
    for stage in [stage for plan in route.all_plans for stage in plan.stages]:
        step = route.steps.get(stage.name)
        if step is not None and stage.sends != isinstance(step, SendStep):
            problem = (
                "sends, so its step must be a SendStep"
                if stage.sends
                else "has a SendStep, so it must say sends=True"
            )
            raise SettingsError("routes", f"stage {stage.name!r} of route {route.name!r} {problem}")


def check_retention(retention: object) -> None:
    """Wrong values would show only when records are removed."""
    if not isinstance(retention, Retention):
        raise SettingsError("retention", f"must be a Retention, not {type(retention).__name__}")
    for name, kept_s in asdict(retention).items():
        if not (kept_s is None or (isinstance(kept_s, int | float) and kept_s >= 0)):
            raise SettingsError(f"retention.{name}", "must be a number of seconds, or None")


def _check_retention(route: Route) -> None:
    """Records are purged route by route, so its plans agree on how long they are kept."""
    for name, plan in route.plans.items():
        for kept in sorted(PURGED_BY_ROUTE):
            if getattr(plan.retention, kept) != getattr(route.plan.retention, kept):
                problem = f"differs from the route's own plan in retention.{kept}"
                reason = "all records of a route are kept for the same time"
                raise SettingsError(
                    "routes", f"plan {name!r} of route {route.name!r} {problem}; {reason}"
                )


def _overlap(queue: str, first: Route, second: Route) -> SettingsError:
    return SettingsError(
        "routes",
        f"the routes {first.name!r} and {second.name!r} both own the queue {queue!r};"
        " every queue belongs to one route, so give one of them another name",
    )
