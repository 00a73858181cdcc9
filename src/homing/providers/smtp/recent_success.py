"""Tells a refused address from a route that does not work: other mail got through a moment ago."""

from __future__ import annotations

import asyncio
import math

from msgspec.structs import replace

from homing.domain.failure import Failure
from homing.ports import Accepted
from homing.providers.smtp.rules import RELAY_DENIED, SENDER_REFUSED

# Longer than a route that is paused waits for its next probe.
RECENT_S = 600.0
# Blamed on the route, and possibly the fault of one message: a domain that the relay does not
# serve, one sender out of several.
_OF_ONE_ADDRESS = frozenset({RELAY_DENIED, SENDER_REFUSED})


class RecentSuccess:
    """Remembers when a message was accepted last."""

    __slots__ = ("_accepted_at_s",)

    def __init__(self) -> None:
        self._accepted_at_s = -math.inf

    def weigh(self, outcome: Accepted | Failure) -> Accepted | Failure:
        """The outcome, with the blame where it belongs."""
        if isinstance(outcome, Accepted):
            self._accepted_at_s = asyncio.get_running_loop().time()
            return outcome
        if outcome.error_class not in _OF_ONE_ADDRESS or not (outcome.code or "").startswith("5"):
            return outcome
        if asyncio.get_running_loop().time() - self._accepted_at_s > RECENT_S:
            return outcome
        return replace(outcome, disposition="reject")
