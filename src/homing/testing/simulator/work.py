"""The users' own code: handlers of events and stages of jobs, with a ledger of what they did."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Callable

from homing.domain.errors import TerminalError
from homing.engine.handlers import Assignment
from homing.testing.simulator.breeds import STAGES, TIMEOUT_S
from homing.testing.simulator.disk import WatchedDisk
from homing.testing.simulator.findings import Findings
from homing.testing.simulator.hosts import Life
from homing.testing.simulator.options import Options
from homing.testing.simulator.sends import SendWitness

POISON = "poison"


class Boom(Exception):
    """A handler's own failure."""


class Workshop:
    """Runs every handler of every process."""

    def __init__(
        self,
        options: Options,
        chance: random.Random,
        disk: WatchedDisk,
        sends: SendWitness,
        findings: Findings,
        fault: Callable[[str], None],
        kill: Callable[[Life], None],
    ) -> None:
        self._options = options
        self._roll = chance.random
        self._disk = disk
        self._sends = sends
        self._breach = findings.breach
        self._fault = fault
        self._kill = kill
        self.is_rough = True
        self.done: Counter[tuple[str, str]] = Counter()
        self._made: dict[tuple[str, str], set[str]] = {}

    def function(self, life: Life, stage: str) -> Callable[[Assignment], Awaitable[str]]:
        async def run(assignment: Assignment) -> str:
            return await self._run(life, stage, assignment)

        return run

    async def _run(self, life: Life, stage: str, assignment: Assignment) -> str:
        delivery_id = self._own_id(assignment)
        self._sends.starts(life, delivery_id, stage)
        self._check_results(stage, assignment)
        if isinstance(assignment.data, dict) and assignment.data.get(POISON):
            self._sends.killed_by(delivery_id)
            self._kill(life)
            await asyncio.sleep(0)  # its last callback; there is no next one
        if self.is_rough:
            await self._suffer()
        self.done[delivery_id, stage] += 1
        made = f"{stage} {self.done[delivery_id, stage]}"
        self._made.setdefault((delivery_id, stage), set()).add(made)
        return made

    def _own_id(self, assignment: Assignment) -> str:
        """A handler of several is shown the event's id; its own row is the child's."""
        handler = assignment.metadata.get("handler")
        for child_id in self._disk.children.get(assignment.id, ()) if handler else ():
            child = self._disk.deliveries.get(child_id)
            if child is not None and child.metadata.get("handler") == handler:
                return child_id
        return assignment.id

    async def _suffer(self) -> None:
        options, roll = self._options, self._roll
        if roll() < options.answer_share:
            await asyncio.sleep(roll() * options.answer_s)
        draw = roll()
        if draw < options.handler_failed:
            self._fault("handler_failed")
            raise Boom("the handler failed")
        if draw < options.handler_failed + options.handler_useless:
            self._fault("handler_useless")
            raise TerminalError("it is useless")
        if draw > 1.0 - options.handler_hung:
            self._fault("handler_hung")
            await asyncio.sleep(TIMEOUT_S * 3)

    def _check_results(self, stage: str, assignment: Assignment) -> None:
        """A stage sees what the stages before it have really made (I18)."""
        order = STAGES.get(assignment.name, ())
        for earlier in order[: order.index(stage)] if stage in order else ():
            made = self._made.get((assignment.id, earlier), set())
            if assignment.results.get(earlier) not in made:
                self._breach("I18", assignment.id, f"{stage} runs without {earlier}")
