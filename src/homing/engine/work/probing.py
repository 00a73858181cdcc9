"""Probes: single messages that show whether a paused route works again."""

from __future__ import annotations

from collections.abc import Sequence

from homing.domain.failure import TIMED_OUT
from homing.engine.process.pausing import Pausing
from homing.engine.route import Route
from homing.engine.work.claimed_work import ClaimedWork
from homing.ports import Clock

# Failures that leave open whether a paused route works again.
NO_ANSWER = frozenset({"connect_failed", TIMED_OUT})
# Of two candidates, rather not the message that found the fault: it may itself be the reason.
CANDIDATES = 2


class Probing:
    """The probes of one route, one in `probe_every_s`."""

    def __init__(self, route: Route, pausing: Pausing, clock: Clock) -> None:
        self._route = route
        self._pausing = pausing
        self._clock = clock
        self._last_s = float("-inf")

    @property
    def is_paused(self) -> bool:
        return self._pausing.is_paused(self._route.name)

    def holds_back(self, work: ClaimedWork) -> bool:
        """Whether the route is paused for this message, which may be a probe."""
        return self._pausing.holds_back(self._route.name, is_probe=work.is_probe)

    def rest_s(self) -> float:
        """How long the next probe has to wait."""
        if not self._pausing.may_probe(self._route.name):
            return self._route.poll_s
        return self._last_s + self._route.probe_every_s - self._clock.steady_s()

    def put_off(self) -> None:
        """The delivery that finds a fault is its first probe: the next one comes later."""
        self._last_s = self._clock.steady_s()

    def choose(self, works: Sequence[ClaimedWork]) -> tuple[list[ClaimedWork], list[ClaimedWork]]:
        """The probe, if there is any work; and the rest."""
        ordered = sorted(works, key=_found_fault)
        for work in ordered[:1]:
            work.is_probe = True
        return ordered[:1], ordered[1:]

    async def learn(self, work: ClaimedWork) -> None:
        """Any answer to a probe but another route fault shows that the route works again.

        A stage before the send asks no provider, so that its outcome shows nothing.
        """
        if not work.stage.sends and any(stage.sends for stage in work.plan.stages):
            return
        name, failure = work.settled, work.delivery.failure
        if name == "fail" and (
            failure is None
            or failure.disposition == "route_fault"
            or failure.error_class in NO_ANSWER
        ):
            return
        if name in ("fail", "succeed", "advance", "suppress", "fan_out"):
            await self._pausing.end_fault(self._route.name)


def _found_fault(work: ClaimedWork) -> bool:
    failure = work.delivery.failure
    return failure is not None and failure.disposition == "route_fault"
