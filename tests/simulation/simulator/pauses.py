"""Routes that a person has paused: nothing of them is claimed or sent until a person resumes them.

Known from what people did, not from what is stored: a fault that pauses the same route, or a probe
that finds it working, must not end the pause of a person.
"""

from __future__ import annotations

from collections import Counter

from tests.simulation.simulator.findings import Findings
from tests.simulation.simulator.hosts import SimProcess
from tests.simulation.simulator.options import Options
from tests.simulation.simulator.route_kinds import TIMEOUT_S
from tests.simulation.virtualtime import VirtualTimeLoop

# Processes hear of a pause with their next heartbeat.
KNOWN_WITHIN_S = 8.0
# What was claimed before may have waited for its turn, and then takes its whole time.
SENT_WITHIN_S = KNOWN_WITHIN_S + 2 * TIMEOUT_S


class Pauses:
    """Since when a person keeps which route paused."""

    def __init__(self, options: Options, loop: VirtualTimeLoop, findings: Findings) -> None:
        self._loop = loop
        self._breach = findings.breach
        # A process whose store fails may hear of a pause late.
        self._is_checked = not options.has("store", "full")
        self._since_s: dict[str, float] = {}
        self._clicks_under_way: Counter[str] = Counter()
        # Which of two clicks at the same time is stored last is not known here.
        self._unclear: set[str] = set()
        # All that were ever paused by a person, in order.
        self.ever: dict[str, None] = {}

    def clicks(self, route: str) -> None:
        """While somebody pauses or resumes it, it is neither."""
        self.ever[route] = None
        self._clicks_under_way[route] += 1
        if self._clicks_under_way[route] > 1:
            self._unclear.add(route)
        self._since_s.pop(route, None)

    def clicked(self, route: str, *, paused: bool) -> None:
        self._clicks_under_way[route] -= 1
        if self._clicks_under_way[route]:
            return
        if paused and route not in self._unclear:
            self._since_s[route] = self._loop.now_s
        self._unclear.discard(route)

    def claimed(self, process: SimProcess, route: str, delivery_id: str) -> None:
        if self._paused_for_s(process, route) > KNOWN_WITHIN_S:
            text = f"{process.holder} claimed it while a person kept {route} paused"
            self._breach("pause", delivery_id, text)

    def sent(self, process: SimProcess, route: str, delivery_id: str) -> None:
        if self._paused_for_s(process, route) > SENT_WITHIN_S:
            text = f"{process.holder} sent it while a person kept {route} paused"
            self._breach("pause", delivery_id, text)

    def _paused_for_s(self, process: SimProcess, route: str) -> float:
        if not self._is_checked or process.was_frozen:
            return 0.0
        return self._loop.now_s - self._since_s.get(route, self._loop.now_s)
