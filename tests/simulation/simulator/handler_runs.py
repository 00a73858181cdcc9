"""The users' own code: handlers of events and stages of jobs, with a ledger of what they did."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Callable

from homing.domain.errors import TerminalError
from homing.engine.work.function_step import HandlerCall
from tests.simulation.simulator.findings import Findings
from tests.simulation.simulator.hosts import SimProcess
from tests.simulation.simulator.options import Options
from tests.simulation.simulator.route_kinds import STAGES, TIMEOUT_S
from tests.simulation.simulator.send_checks import SendChecks
from tests.simulation.simulator.watched_disk import WatchedDisk

POISON = "poison"
# Handlers of this type of event end without waiting for anything.
AT_ONCE = "tick"


class HandlerFailed(Exception):
    """A handler's own failure."""


class HandlerRuns:
    """Runs every handler of every process."""

    def __init__(
        self,
        options: Options,
        rng: random.Random,
        disk: WatchedDisk,
        sends: SendChecks,
        findings: Findings,
        fault: Callable[[str], None],
        kill: Callable[[SimProcess], None],
    ) -> None:
        self._options = options
        self._roll = rng.random
        self._disk = disk
        self._sends = sends
        self._breach = findings.breach
        self._fault = fault
        self._kill = kill
        self.faults_on = True
        self.done: Counter[tuple[str, str]] = Counter()
        self._made: dict[tuple[str, str], set[str]] = {}

    def function(self, process: SimProcess, stage: str) -> Callable[[HandlerCall], Awaitable[str]]:
        async def run(call: HandlerCall) -> str:
            return await self._run(process, stage, call)

        return run

    async def _run(self, process: SimProcess, stage: str, call: HandlerCall) -> str:
        delivery_id = self._own_id(call)
        self._sends.starts(process, delivery_id, stage)
        self._check_results(stage, call)
        if isinstance(call.data, dict) and call.data.get(POISON):
            self._sends.killed_by(delivery_id)
            self._kill(process)
            await asyncio.sleep(0)  # its last callback; there is no next one
        if self.faults_on:
            await self._apply_faults(waits=call.name != AT_ONCE)
        self.done[delivery_id, stage] += 1
        made = f"{stage} {self.done[delivery_id, stage]}"
        self._made.setdefault((delivery_id, stage), set()).add(made)
        return made

    def _own_id(self, call: HandlerCall) -> str:
        """A handler of several is shown the event's id; its own row is the child's."""
        handler = call.metadata.get("handler")
        for child_id in self._disk.children.get(call.id, ()) if handler else ():
            child = self._disk.deliveries.get(child_id)
            if child is not None and child.metadata.get("handler") == handler:
                return child_id
        return call.id

    async def _apply_faults(self, *, waits: bool) -> None:
        options, roll = self._options, self._roll
        if waits and roll() < options.answer_share:
            await asyncio.sleep(roll() * options.answer_s)
        draw = roll()
        if draw < options.handler_failed:
            self._fault("handler_failed")
            raise HandlerFailed("the handler failed")
        if draw < options.handler_failed + options.handler_useless:
            self._fault("handler_useless")
            raise TerminalError("it is useless")
        if waits and draw > 1.0 - options.handler_hung:
            self._fault("handler_hung")
            await asyncio.sleep(TIMEOUT_S * 3)

    def _check_results(self, stage: str, call: HandlerCall) -> None:
        """A stage sees what the stages before it have really made (I18)."""
        order = STAGES.get(call.name, ())
        for earlier in order[: order.index(stage)] if stage in order else ():
            made = self._made.get((call.id, earlier), set())
            if call.results.get(earlier) not in made:
                self._breach("I18", call.id, f"{stage} runs without {earlier}")
